"""Integers whose widths have a gradient, and units that are made of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, fx

from chop.formats import Format
from chop.formats.integer import Integer
from chop.nn.quantized.config import ROLES
from chop.passes.quantization.replacement import replacement
from chop.searching.evaluation.ptq import Problem
from chop.searching.space import Dimension, Unit
from chop.searching.space.baselines import WIDTHS, fraction

FORMAT = "integer"
Widths = tuple[int, ...]
"""Of a unit, in the order of its dimensions."""


class LearnedUnit:
    """A unit whose widths are numbers to be learned; all else is as the space offers it first."""

    def __init__(self, problem: Problem, unit: Unit) -> None:
        self.unit, self._problem = unit, problem
        seen: list[Dimension] = []

        def first(dimension: Dimension) -> Any:
            seen.append(dimension)
            return dimension.choices[0]

        _check_formats(unit.name, unit.draw(first), seen)
        self.dimensions = [dimension for dimension in seen if dimension.key in WIDTHS]
        self._formats: dict[Widths, Mapping[str, Format]] = {}
        self._costs: dict[Widths, Mapping[str, float]] = {}

    @cached_property
    def widest(self) -> Widths:
        return tuple(max(dimension.choices) for dimension in self.dimensions)

    @cached_property
    def narrowest(self) -> Widths:
        return tuple(min(dimension.choices) for dimension in self.dimensions)

    def allowed(self, widths: Widths) -> Widths:
        """The nearest widths that the space offers; of two that are as near, the larger."""
        pairs = zip(self.dimensions, widths, strict=True)
        return tuple(min(d.choices, key=lambda choice: (abs(choice - width), -choice)) for d, width in pairs)

    def config(self, widths: Widths) -> dict[str, Any]:
        """The configuration with these widths, offered or not."""
        chosen = {dimension.key: width for dimension, width in zip(self.dimensions, widths, strict=True)}

        def choose(dimension: Dimension) -> Any:
            if dimension.key in chosen:
                return chosen[dimension.key]
            if dimension.key.endswith("_frac_width"):
                width = dimension.key.replace("_frac_width", "_width")
                return fraction(dimension.choices, chosen.get(width, max(chosen.values(), default=8)))
            return dimension.choices[0]

        return self.unit.draw(choose)

    def around(self, widths: Widths, place: int) -> tuple[Widths, Widths]:
        """The same with one of them a bit narrower, and a bit wider, as far as the space goes."""
        narrower = max(self.narrowest[place], widths[place] - 1)
        wider = min(self.widest[place], widths[place] + 1)
        before, after = widths[:place], widths[place + 1 :]
        return (*before, narrower, *after), (*before, wider, *after)

    def costs(self, widths: Widths) -> Mapping[str, float]:
        """The costs of the model with this unit so wide, and all others as they are in the model."""
        if widths not in self._costs:
            self._costs[widths] = self._problem.costs({self.unit.name: self.config(widths)})
        return self._costs[widths]

    def set(self, widths: Tensor) -> None:
        """Be so wide from now on, rounded to whole bits; the gradient goes to `widths`."""
        rounded = whole(widths)
        now = self._formats_at(rounded)
        for operand, place in self._driven.items():
            below, above = self.around(rounded, place)
            few, many = self._formats_at(below)[operand], self._formats_at(above)[operand]
            self._learning[operand].set(widths[place], now[operand], _fraction_slope(few, many))

    @cached_property
    def replaced(self) -> dict[fx.Node, Callable[..., Any]]:
        """What stands for the unit's nodes; `set` says how wide it is."""
        formats = {**self._formats_at(self.widest), **self._learning}
        made = replacement(self.unit.metas[0], formats, FORMAT)
        return {meta.node: made for meta in self.unit.metas}

    @cached_property
    def _learning(self) -> dict[str, LearnedWidth]:
        return {operand: LearnedWidth() for operand in self._driven}

    @cached_property
    def _driven(self) -> dict[str, int]:
        """The operands that have one of the learned widths, each with the place of its dimension."""
        widest = self._formats_at(self.widest)
        found: dict[str, int] = {}
        for place, narrow in enumerate(self.narrowest):
            other = self._formats_at((*self.widest[:place], narrow, *self.widest[place + 1 :]))
            found |= {operand: place for operand in widest if widest[operand].width != other[operand].width}
        return found

    def _formats_at(self, widths: Widths) -> Mapping[str, Format]:
        """By operand."""
        if widths not in self._formats:
            made = self._problem.option(self.unit, self.config(widths)).replaced[self.unit.metas[0].node]
            found: Mapping[str, Format] = made.formats  # type: ignore[attr-defined]  # layers and calls have them
            if any(each.has_own_scale for each in found.values()):
                raise ValueError(
                    f"strategy 'learned' learns widths beside fixed steps; '{self.unit.name}' asks for "
                    'scale = "learned": take "power_of_two" or "float"'
                )
            self._formats[widths] = found
        return self._formats[widths]


def _check_formats(name: str, config: Mapping[str, Any], seen: list[Dimension]) -> None:
    named = {str(config[key]) for key in ("name", *(f"{role}_name" for role in ROLES)) if key in config}
    if named != {FORMAT} or any(dimension.key.endswith("name") for dimension in seen):
        raise ValueError(
            f"strategy 'learned' learns the widths of format '{FORMAT}', and '{name}' may have others; "
            f"offer it '{FORMAT}' alone, or take strategy 'ilp'"
        )


def whole(widths: Tensor) -> Widths:
    return tuple(int(width) for width in widths.detach().round().tolist())


def _fraction_slope(few: Format, many: Format) -> float:
    """How many of the bits that are added go behind the point."""
    assert isinstance(few, Integer)
    assert isinstance(many, Integer)
    if not few.is_fixed_point:
        return 1.0  # the step follows the data, and the largest number stays what it is
    slope = (many.precision[1] - few.precision[1]) / (many.width - few.width)
    return min(1.0, slope)  # a fraction chosen from data gains more, as 2**(width - 1) - 1 more than doubles


class LearnedWidth(Format):
    """An integer format that changes, and hands its width a gradient."""

    name = FORMAT

    def __init__(self) -> None:
        self._now: Format = Integer()
        self._width, self._slope = torch.zeros(()), 1.0

    def set(self, width: Tensor, now: Format, slope: float) -> None:
        self._width, self._now, self._slope = width, now, slope

    @property
    def width(self) -> int:
        return self._now.width

    @property
    def is_repeatable(self) -> bool:
        return False

    def quantize(self, x: Tensor) -> Tensor:
        return self._now.quantize(x)

    def __call__(self, x: Tensor, scale: Tensor | None = None) -> Tensor:
        return _by_width(x, self._width, self._now, self._slope)


class _ByWidth(torch.autograd.Function):
    """Rounding, with the gradient of the error to the width (HGQ, Sun et al. 2024, arXiv:2405.00645).

    A bit more behind the point halves the error e of what is rounded: de/db = -ln(2) e. A bit more before it
    doubles what is cut off at: dq/db = ln(2) q. To the numbers themselves the gradient passes straight through.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, width: Tensor, now: Format, slope: float) -> Tensor:
        q = now.quantize(x)
        change = (x - q).mul_(slope)
        if slope != 1 and isinstance(now, Integer):
            cut_off = (x - q).abs() > 2.0 ** -now.precision[1]
            change = torch.where(cut_off, q * (1 - slope), change)
        ctx.save_for_backward(change)
        return q

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, None, None]:
        (change,) = ctx.saved_tensors
        return gradient, (gradient * change).sum().mul(math.log(2)), None, None


# `Function.apply` has no types of its own.
_by_width: Callable[[Tensor, Tensor, Format, float], Tensor] = _ByWidth.apply
