"""Integer formats whose widths have a gradient, and units that use them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, fx

from chop.formats import Format
from chop.formats.integer import Integer
from chop.passes.quantization.replacement import make_replacement
from chop.searching.evaluation.problem import UnitwiseProblem
from chop.searching.space import Dimension, Unit
from chop.searching.space.baselines import WIDTH_KEYS, fraction_width

FORMAT = "integer"
DEFAULT_WIDTH = 8  # for fraction bits of a unit that has no width to learn
Widths = tuple[int, ...]
"""The widths of a unit in bits, in the order of its dimensions."""


class LearnedUnit:
    """A unit whose widths are learned; all its other keys have the first value that the space offers."""

    def __init__(self, problem: UnitwiseProblem, unit: Unit) -> None:
        choices = unit.choices
        formats = {name for key in ("name", *choices.format_keys) for name in choices.values(key)}
        if formats != {FORMAT}:
            raise ValueError(
                f"strategy 'learned' learns the widths of format '{FORMAT}', but '{unit.name}' may have others; "
                f"offer '{FORMAT}' only, or use strategy 'ilp'"
            )
        self.unit, self._problem = unit, problem
        self.dimensions = [each for each in choices.dimensions(unit.name, FORMAT) if each.key in WIDTH_KEYS]
        self._formats: dict[Widths, Mapping[str, Format]] = {}
        self._costs: dict[Widths, Mapping[str, float]] = {}

    @cached_property
    def widest(self) -> Widths:
        """The largest width of each dimension."""
        return tuple(max(dimension.choices) for dimension in self.dimensions)

    @cached_property
    def narrowest(self) -> Widths:
        """The smallest width of each dimension."""
        return tuple(min(dimension.choices) for dimension in self.dimensions)

    def nearest_offered(self, widths: Widths) -> Widths:
        """Return the nearest widths that the space offers; the larger one if two are equally near."""
        pairs = zip(self.dimensions, widths, strict=True)
        return tuple(min(d.choices, key=lambda choice: (abs(choice - width), -choice)) for d, width in pairs)

    def config(self, widths: Widths) -> dict[str, Any]:
        """Return the config with these widths, whether or not the space offers them."""
        chosen = {dimension.key: width for dimension, width in zip(self.dimensions, widths, strict=True)}

        def choose(dimension: Dimension) -> Any:
            if dimension.key in chosen:
                return chosen[dimension.key]
            if dimension.key.endswith("_frac_width"):
                width_key = dimension.key.replace("_frac_width", "_width")
                width = chosen.get(width_key, max(chosen.values(), default=DEFAULT_WIDTH))
                return fraction_width(dimension.choices, width)
            return dimension.choices[0]

        return self.unit.draw(choose)

    def neighbours(self, widths: Widths, index: int) -> tuple[Widths, Widths]:
        """Return the widths with one of them a bit smaller, and a bit larger, within the range of the space."""
        narrower = max(self.narrowest[index], widths[index] - 1)
        wider = min(self.widest[index], widths[index] + 1)
        before, after = widths[:index], widths[index + 1 :]
        return (*before, narrower, *after), (*before, wider, *after)

    def costs(self, widths: Widths) -> Mapping[str, float]:
        """Return the costs of the model with this unit at these widths and all others not quantised."""
        if widths not in self._costs:
            self._costs[widths] = self._problem.costs({self.unit.name: self.config(widths)})
        return self._costs[widths]

    def set_widths(self, widths: Tensor) -> None:
        """Use the widths, rounded to whole bits; gradients flow to `widths`."""
        rounded = round_widths(widths)
        formats = self._formats_at(rounded)
        for operand, index in self._width_index.items():
            below, above = self.neighbours(rounded, index)
            slope = _fraction_slope(self._formats_at(below)[operand], self._formats_at(above)[operand])
            self._learned_formats[operand].set(widths[index], formats[operand], slope)

    @cached_property
    def replacements(self) -> dict[fx.Node, Callable[..., Any]]:
        """What replaces the unit's nodes; `set_widths` changes its widths."""
        formats = {**self._formats_at(self.widest), **self._learned_formats}
        new = make_replacement(self.unit.metas[0], formats, FORMAT)
        return {meta.node: new for meta in self.unit.metas}

    @cached_property
    def _learned_formats(self) -> dict[str, LearnedWidth]:
        return {operand: LearnedWidth() for operand in self._width_index}

    @cached_property
    def _width_index(self) -> dict[str, int]:
        """The index of the dimension that sets the width of each operand; fixed widths are left out."""
        widest = self._formats_at(self.widest)
        found: dict[str, int] = {}
        for index, narrow in enumerate(self.narrowest):
            other = self._formats_at((*self.widest[:index], narrow, *self.widest[index + 1 :]))
            found |= {operand: index for operand in widest if widest[operand].width != other[operand].width}
        return found

    def _formats_at(self, widths: Widths) -> Mapping[str, Format]:
        """Return the format of each operand at these widths."""
        if widths not in self._formats:
            quantized = self._problem.quantized_unit(self.unit, self.config(widths))
            found = quantized.cost_change.formats[self.unit.name]
            if any(each.has_learned_scale for each in found.values()):
                raise ValueError(
                    f"strategy 'learned' learns widths with fixed scales, but '{self.unit.name}' has "
                    'scale = "learned"; use "power_of_two" or "float"'
                )
            self._formats[widths] = found
        return self._formats[widths]


def round_widths(widths: Tensor) -> Widths:
    """Return the widths rounded to integers."""
    return tuple(int(width) for width in widths.detach().round().tolist())


def _fraction_slope(narrow: Format, wide: Format) -> float:
    """Return the share of the additional bits of `wide` that become fraction bits."""
    assert isinstance(narrow, Integer)
    assert isinstance(wide, Integer)
    if not narrow.is_fixed_point:
        return 1.0  # the scale follows the data, and the largest number stays the same
    slope = (wide.precision[1] - narrow.precision[1]) / (wide.width - narrow.width)
    return min(1.0, slope)  # a fraction chosen from data gains more, as 2**(width - 1) - 1 more than doubles


class LearnedWidth(Format):
    """An integer format that can be changed, and that passes a gradient to its width."""

    name = FORMAT

    def __init__(self) -> None:
        self._current: Format = Integer()
        self._width, self._slope = torch.zeros(()), 1.0

    def set(self, width: Tensor, current: Format, slope: float) -> None:
        """Round as `current` does; `slope` is the share of additional bits that become fraction bits."""
        self._width, self._current, self._slope = width, current, slope

    @property
    def width(self) -> int:
        return self._current.width

    @property
    def is_repeatable(self) -> bool:
        return False

    def quantize(self, x: Tensor) -> Tensor:
        return self._current.quantize(x)

    def __call__(self, x: Tensor, scale: Tensor | None = None) -> Tensor:
        return _round_with_width_gradient(x, self._width, self._current, self._slope)


class _RoundWithWidthGradient(torch.autograd.Function):
    """Rounding, with the gradient of the error with respect to the width (HGQ, Sun et al. 2024, arXiv:2405.00645).

    One more fraction bit halves the rounding error e: de/db = -ln(2) e. One more integer bit doubles the largest
    number, at which values saturate: dq/db = ln(2) q. The gradient to the values passes straight through.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, width: Tensor, current: Format, slope: float) -> Tensor:
        q = current.quantize(x)
        change = (x - q).mul_(slope)
        if slope != 1 and isinstance(current, Integer):
            saturates = (x - q).abs() > 2.0 ** -current.precision[1]
            change = torch.where(saturates, q * (1 - slope), change)
        ctx.save_for_backward(change)
        return q

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, None, None]:
        (change,) = ctx.saved_tensors
        return gradient, (gradient * change).sum().mul(math.log(2)), None, None


# `Function.apply` has no type annotations.
_round_with_width_gradient: Callable[[Tensor, Tensor, Format, float], Tensor] = _RoundWithWidthGradient.apply
