"""The base class of number formats: parameters, rounding, codes, and the straight-through gradient."""

from __future__ import annotations

import dataclasses
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, ClassVar, Literal, Self, TypeVar

import torch
from torch import Tensor

from chop.display.html import html_table
from chop.formats.parts.gradients import rounded
from chop.registry import Registry

OperandDim = Literal["reduce_dim", "channel_dim"]
Scales = tuple[Tensor, ...]
Encoded = tuple[Tensor, Scales]
"""Codes, and the scales of the blocks or of the tensor; if there are both, the tensor's scale is last."""


def param(
    default: Any,
    *,
    help: str,
    search: Sequence[Any] = (),
    operand_dim: OperandDim | None = None,
    inherited: bool = True,
    follows: str | None = None,
    kw_only: bool = False,
) -> Any:
    """Declare a parameter of a format. `search` lists values worth trying.

    A parameter with an `operand_dim` is a dimension; if it is None, `for_operand` sets it to that dimension of the
    operand. In a config, weight and bias take from `data_in` what they are not given, unless it is a dimension, is
    not `inherited`, or `follows` a parameter that they are given. (The return type is `Any`, as for
    `dataclasses.field`; the annotation of the field gives the type.)
    """
    metadata = {
        "help": help,
        "search": tuple(search),
        "operand_dim": operand_dim,
        "inherited": inherited and operand_dim is None,
        "follows": follows,
    }
    return dataclasses.field(default=default, metadata=metadata, kw_only=kw_only)


class Format(ABC):
    """A set of representable numbers. A subclass is a frozen dataclass whose fields are its parameters.

    A subclass must define `width` and `quantize`. All other methods are optional: `encode`, `decode` and
    `all_codes` for the list of its values in `ch info` and in reports, `integers` for the integers that hardware
    would hold, `bits` if a block shares something, `rounds_rows_independently` to save memory for large inputs.
    The class attributes and properties are promises that `tests/contracts` checks.
    """

    name: ClassVar[str]
    floating_point: ClassVar[bool] = False
    """Whether arithmetic in this format counts as floating point."""
    rounds: ClassVar[bool] = True
    """Whether quantising changes numbers at all."""
    is_symmetric: ClassVar[bool] = False
    """Whether `quantize(-x)` is always `-quantize(x)` with the default parameters."""

    @property
    @abstractmethod
    def width(self) -> int:
        """Bits per element, sign included."""

    @property
    def bits(self) -> float:
        """Storage per element in bits, including its share of what a full block has in common."""
        return float(self.width)

    def storage_bits(self, shape: Sequence[int]) -> int:
        """Return the bits of a tensor: its elements, and the scales of its blocks, channels or rows.

        A scale of the whole tensor is not counted.
        """
        return math.prod(shape) * self.width + self.scale_bits(shape)

    def scale_bits(self, shape: Sequence[int]) -> int:
        """Return the bits of all scales in a tensor of this shape; 0 if at most one is shared by all elements."""
        return 0

    @abstractmethod
    def quantize(self, x: Tensor) -> Tensor:
        """Return the nearest representable values, in the shape and dtype of `x`; not a view of `x`."""

    def integers(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return integers and their scale: `integers * scale`, in the dtype of `x`, is `quantize(x)`.

        NaN is an error here and in `encode`: no format has an integer or a code for it, except `float`.
        """
        raise ValueError(f"format '{self.name}' does not represent its values as integers")

    def encode(self, x: Tensor) -> Encoded:
        """Return the codes that are stored for `x`, and their scales."""
        raise ValueError(f"format '{self.name}' does not define codes for its values")

    def decode(self, codes: Tensor, scales: Scales = ()) -> Tensor:
        """Return the numbers of codes: `decode(*encode(x))`, in the dtype of `x`, is `quantize(x)`.

        Without `scales`, they are 1.
        """
        raise ValueError(f"format '{self.name}' does not define codes for its values")

    @classmethod
    def has_codes(cls) -> bool:
        """Whether the format defines `encode` and `decode`."""
        return cls.encode is not Format.encode and cls.decode is not Format.decode

    @property
    def values_depend_on_data(self) -> bool:
        """Whether the representable values follow the data, as with a scale that is computed from a block."""
        return False

    def rounds_rows_independently(self, x: Tensor) -> bool:
        """Whether rounding `x` equals rounding each index of its first dimension separately."""
        return False

    @property
    def is_repeatable(self) -> bool:
        """Whether rounding the same numbers again gives the same result."""
        return True

    @property
    def needs_fit(self) -> bool:
        """Whether a parameter is still to be chosen from data, by `fitted`."""
        return False

    def fitted(self, largest: float) -> Self:
        """Return the format with parameters that cover magnitudes up to `largest`, if it has such parameters."""
        return self

    def scale_for(self, largest: float) -> float | None:
        """Return the smallest scale that covers `largest`; None if the format takes no scale."""
        return None

    def scale_groups(self, x: Tensor) -> Tensor | None:
        """Return for each element the index of the group that shares its scale; None if there are no scales."""
        return None

    def element_scales(self, x: Tensor) -> Tensor:
        """Return the scale of each element when `x` is rounded; for formats with `scale_groups`."""
        raise ValueError(f"format '{self.name}' computes no scales from data")

    def quantize_with(self, x: Tensor, scales: Tensor) -> Tensor:
        """Round with these scales, one per element, instead of those that `x` would have; for the same formats."""
        raise ValueError(f"format '{self.name}' computes no scales from data")

    @property
    def has_learned_scale(self) -> bool:
        """Whether the format has a trainable scale, which starts at `initial_scale`."""
        return False

    def initial_scale(self, x: Tensor) -> Tensor:
        """Return the value at which the training of the scale starts, for data `x`."""
        raise ValueError(f"format '{self.name}' has no trainable scale")

    def step_of(self, scale: Tensor) -> Tensor:
        """Return the scale that is used for a learned or calibrated one, such as its nearest power of two."""
        return scale

    def all_codes(self) -> Tensor:
        """Return every code of one element."""
        return torch.arange(2**self.width)

    @property
    def is_idempotent(self) -> bool:
        """Whether rounding rounded numbers again changes nothing, within `requantize_tolerance`."""
        return True

    @property
    def requantize_tolerance(self) -> float:
        """The relative change that rounding rounded float32 numbers again may cause; 0 if none."""
        return 0.0

    def contains(self, x: Tensor) -> Tensor:
        """Return a mask of the elements of `x` that the format can represent, if possible with one scale for all.

        All that `quantize` returns, except NaN, can be represented.
        """
        return self.same(self.quantize(x), x)

    def same(self, again: Tensor, x: Tensor) -> Tensor:
        """Return where numbers that were rounded again are the same, within the tolerance of the format."""
        if not self.requantize_tolerance:
            return again == x
        share = self.requantize_tolerance * torch.finfo(x.dtype).eps / torch.finfo(torch.float32).eps
        return ((again - x).abs() <= share * x.abs()) & x.isfinite()

    def __call__(self, x: Tensor, scale: Tensor | None = None) -> Tensor:
        """Quantise with a straight-through gradient. `scale` is for formats with a learned or calibrated scale."""
        return rounded(x, self, scale)

    @property
    def precision(self) -> list[int | float]:
        """The width, then the other numbers among the parameters: `[8, 4]` is 8 bits, 4 of them fraction."""
        others = [
            getattr(self, field.name)
            for field in parameters(type(self))
            if field.name != "width" and field.metadata["operand_dim"] is None
        ]
        return [self.width, *(value for value in others if _is_number(value))]

    @property
    def settings(self) -> dict[str, Any]:
        """The parameters that are not the default, without those in `precision` and the operand's dimensions."""
        values = {field: getattr(self, field.name) for field in parameters(type(self))}
        return {
            field.name: value
            for field, value in values.items()
            if field.metadata["operand_dim"] is None and value != field.default and not _is_number(value)
        }

    def _repr_html_(self) -> str:
        """Return the parameters as a table for notebooks."""
        rows = [(field.name, getattr(self, field.name), field.metadata["help"]) for field in parameters(type(self))]
        return html_table(("parameter", "value", "meaning"), rows, f"{self}: {self.bits:g} bits per element")

    def __str__(self) -> str:
        settings = [f"{name}={value}" for name, value in self.settings.items()]
        return f"{self.name}({', '.join([self._numbers_text, *settings])})"

    @property
    def _numbers_text(self) -> str:
        return ", ".join(str(number) for number in self.precision)

    def for_operand(self, reduce_dim: int, channel_dim: int | None) -> Self:
        """Return the format for an operand that is summed over `reduce_dim` and has channels in `channel_dim`."""
        dims = {"reduce_dim": reduce_dim, "channel_dim": channel_dim}
        found = {
            field.name: dims[field.metadata["operand_dim"]]
            for field in parameters(type(self))
            if field.metadata["operand_dim"] is not None and getattr(self, field.name) is None
        }
        # mypy does not know that every concrete format is a dataclass.
        return dataclasses.replace(self, **found) if found else self  # type: ignore[type-var]


FORMATS: Registry[type[Format]] = Registry("format")
FormatClass = TypeVar("FormatClass", bound=type[Format])


def register_format(name: str) -> Callable[[FormatClass], FormatClass]:
    """Register a format under the name that configs use; goes above `@dataclass`."""

    def with_name(format_class: FormatClass) -> FormatClass:
        format_class.name = name
        return format_class

    return FORMATS.register(name, with_name)


@cache
def parameters(format_class: type[Format]) -> tuple[dataclasses.Field[Any], ...]:
    """Return the fields of a format's parameters: its own in declaration order, then the keyword-only ones."""
    # mypy does not know that every concrete format is a dataclass.
    fields = dataclasses.fields(format_class)  # type: ignore[arg-type]
    return tuple(sorted(fields, key=lambda field: bool(field.kw_only)))


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def check_range(what: str, value: int, low: int, high: int) -> None:
    """Raise an error if a parameter is outside its range."""
    if not low <= value <= high:
        raise ValueError(f"{what} must be from {low} to {high}, got {value}")
