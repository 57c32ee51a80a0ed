"""What a number format is: parameters, the rounding they define, and the gradient that passes through."""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Literal, Self, TypeVar

import torch
from torch import Tensor

from chop.registry import Registry

Place = Literal["reduce_dim", "channel_dim"]
Scales = tuple[Tensor, ...]
Encoded = tuple[Tensor, Scales]
"""Codes, and the scales of blocks or of the tensor, outermost last."""


def param(
    default: Any, *, help: str, search: Sequence[Any] = (), place: Place | None = None, kw_only: bool = False
) -> Any:
    """A format's parameter. `search` lists values worth trying.

    A parameter with a `place` that is left None is taken from the operand which the format is put on.
    (`Any`, as for `dataclasses.field`: the field's own annotation says the type.)
    """
    metadata = {"help": help, "search": tuple(search), "place": place}
    return dataclasses.field(default=default, metadata=metadata, kw_only=kw_only)


class Format(ABC):
    """A set of representable numbers. A subclass is a frozen dataclass whose fields are its parameters."""

    name: ClassVar[str]
    floating_point: ClassVar[bool] = False
    """Whether arithmetic in this format counts as floating point."""

    @property
    @abstractmethod
    def width(self) -> int:
        """Bits that one element takes, sign included."""

    @property
    def bits(self) -> float:
        """Average storage of an element in bits, its part of everything shared by a block included."""
        return float(self.width)

    @abstractmethod
    def quantize(self, x: Tensor) -> Tensor:
        """The nearest representable values, in the shape and dtype of `x`; not a view of `x`."""

    def integers(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Integers and the scale by which they stand for `quantize(x)`, exactly: integers * scale."""
        raise ValueError(f"format '{self.name}' has no integers behind its values")

    def encode(self, x: Tensor) -> Encoded:
        """The codes that are stored for `x`, and the scales that go with them."""
        raise ValueError(f"format '{self.name}' does not say how its values are stored")

    def decode(self, codes: Tensor, scales: Scales = ()) -> Tensor:
        """The numbers that codes stand for: `decode(*encode(x))` is `quantize(x)`. Without scales, those are 1."""
        raise ValueError(f"format '{self.name}' does not say how its values are stored")

    def rounds_rows_apart(self, x: Tensor) -> bool:
        """Whether each index of the first dimension of `x` is rounded as if it were alone."""
        return False

    @property
    def is_repeatable(self) -> bool:
        """Whether rounding the same numbers again gives the same."""
        return True

    @property
    def needs_fit(self) -> bool:
        """Whether a parameter is left to be chosen from data, by `fitted`."""
        return False

    def fitted(self, largest: float) -> Self:
        """This format with room for magnitudes up to `largest`; itself, where its parameters do not say that."""
        return self

    def scale_for(self, largest: float) -> float | None:
        """The scale that just holds `largest`, of a format that can be given one."""
        return None

    @property
    def has_own_scale(self) -> bool:
        """Whether it wants a trainable scale, which starts at `initial_scale`."""
        return False

    def initial_scale(self, x: Tensor) -> Tensor:
        raise ValueError(f"format '{self.name}' has no scale to learn")

    def all_codes(self) -> Tensor:
        """Every code that one element can have."""
        return torch.arange(2**self.width)

    def contains(self, x: Tensor) -> Tensor:
        """Where `x` is a number that this format can represent."""
        return self.quantize(x) == x

    def __call__(self, x: Tensor, scale: Tensor | None = None) -> Tensor:
        """`quantize` with a straight-through gradient. Formats with a scale of their own may be given one."""
        if torch.is_grad_enabled() and x.requires_grad:
            return _straight_through(x, self)
        return self.quantize(x)

    @property
    def precision(self) -> list[int | float]:
        """The width, then the other numbers among the parameters: `[8, 4]` is 8 bits, 4 of them fraction."""
        numbers = [
            value
            for field in parameters(type(self))
            if field.name != "width" and field.metadata["place"] is None
            for value in [getattr(self, field.name)]
            if isinstance(value, int | float) and not isinstance(value, bool)
        ]
        return [self.width, *numbers]

    def __str__(self) -> str:
        return f"{self.name}({', '.join(str(number) for number in self.precision)})"

    def placed(self, reduce_dim: int, channel_dim: int | None) -> Self:
        """This format on an operand that is reduced along one dimension and has its channels along another."""
        dims = {"reduce_dim": reduce_dim, "channel_dim": channel_dim}
        found = {
            field.name: dims[field.metadata["place"]]
            for field in parameters(type(self))
            if field.metadata["place"] is not None and getattr(self, field.name) is None
        }
        # mypy does not see that every concrete format is a dataclass.
        return dataclasses.replace(self, **found) if found else self  # type: ignore[type-var]


class _StraightThrough(torch.autograd.Function):
    """Rounding that the gradient does not see."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, number_format: Format) -> Tensor:
        return number_format.quantize(x)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return gradient, None


# `Function.apply` has no types of its own.
_straight_through: Callable[[Tensor, Format], Tensor] = _StraightThrough.apply

FORMATS: Registry[type[Format]] = Registry("format")
FormatClass = TypeVar("FormatClass", bound=type[Format])


def register_format(name: str) -> Callable[[FormatClass], FormatClass]:
    """Files a format under the name that configs use; stands above `@dataclass`."""

    def decorate(format_class: FormatClass) -> FormatClass:
        format_class.name = name
        FORMATS.add(name, format_class)
        return format_class

    return decorate


def parameters(format_class: type[Format]) -> tuple[dataclasses.Field[Any], ...]:
    """The parameters of a format: its own in the order of their declaration, then those it has in common."""
    # mypy does not see that every concrete format is a dataclass.
    fields = dataclasses.fields(format_class)  # type: ignore[arg-type]
    return tuple(sorted(fields, key=lambda field: bool(field.kw_only)))


def check_range(what: str, value: int, low: int, high: int) -> None:
    """Raises where a parameter lies outside of what its format can do."""
    if not low <= value <= high:
        raise ValueError(f"{what} must be from {low} to {high}, got {value}")
