"""Grids of small floats and of integers: rounding and codes; and the base class of formats with one grid."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import torch
from torch import Tensor

from chop.formats.kernels.families import Element, integer_element, round_on_grid
from chop.formats.kernels.loops.parameters import ElementParameters
from chop.formats.parts.base import Encoded, Format, Scales
from chop.formats.parts.bits import (
    floor_log2,
    largest_of,
    mantissa_width,
    nearest_even_power_of_two,
    power_of_two,
    power_of_two_below,
    refuse_nan,
    working,
)
from chop.formats.parts.rounding import Rounded, Rounding, round_, rounds_up


@dataclass(frozen=True)
class Grid:
    """0 and -0, subnormals in steps of 2**(min_exponent - mantissa), then `2**mantissa` values per binade.

    Codes number the magnitudes from 0 upwards; the sign is the bit above them.
    """

    mantissa: int
    """Mantissa bits after the leading one."""
    min_exponent: int
    """Exponent of the smallest normal number."""
    largest: float

    def round(self, x: Tensor, rounding: Rounding = "nearest_even", top: float = math.inf) -> Tensor:
        """Return the nearest values up to `top`, saturating, in a new tensor; `x` is float32 or float64.

        A zero has the sign of `x`, as in IEEE 754.
        """
        largest = self.largest if top >= self.largest else self._at_most(top)
        return self._round_(x.clamp(-largest, largest), rounding).copysign_(x)

    def round_(self, x: Tensor, rounding: Rounding = "nearest_even") -> Tensor:
        """Return the nearest values; `IntegerGrid` rounds in place."""
        return self.round(x, rounding)

    def _round_(self, y: Tensor, rounding: Rounding) -> Tensor:
        """Round in place if possible; the sign of the result is not defined."""
        if self.mantissa == 0:
            return self._to_even_powers(y) if rounding == "nearest_even" else self._to_powers(y, rounding)
        power = power_of_two_below(y).clamp_(min=2.0**self.min_exponent)
        if rounding == "nearest_even" and self.is_rounded_by_sum(y.dtype):
            # Adding a number whose last bit is worth one step rounds y, with ties to even.
            magic = power.mul_(1.5 * 2.0 ** (mantissa_width(y.dtype) - self.mantissa))
            return y.add_(magic).sub_(magic)
        step = power.mul_(2.0**-self.mantissa)
        return round_(y.div_(step), rounding).mul_(step)

    def in_loop(self, rounding: Rounding) -> Element | None:
        """Return how a compiled loop rounds to this grid; None if no loop can."""
        mantissa = mantissa_width(torch.float32)
        parameters = ElementParameters(
            high=self.largest,
            smallest=2.0**self.min_exponent,
            magic=1.5 * 2.0 ** (mantissa - self.mantissa),
            step=2.0**-self.mantissa,
            ties_to_odd=float(self.min_exponent % 2 == 0),
        )
        if rounding == "stochastic" or (self.mantissa == 0 and rounding != "nearest_even"):
            return None
        if self.mantissa == 0:
            return Element("power/nearest_even", parameters)
        if rounding == "nearest_even" and self.is_rounded_by_sum():
            return Element("grid_by_sum/nearest_even", parameters)
        if rounding == "nearest_even" and self.min_exponent == -126:  # that of float32
            return Element(f"grid_by_bits/{mantissa - self.mantissa}", parameters)
        return Element(f"grid/{rounding}", parameters)

    def integers(self, values: Tensor) -> tuple[Tensor, Tensor]:
        """Return the significands of numbers on the grid, and for each the power of two that is its unit."""
        refuse_nan(values)
        exponent = floor_log2(values.abs()).clamp_(min=self.min_exponent)
        step = power_of_two(exponent - self.mantissa, values.dtype)
        return values.div(step).long(), step

    def encode(self, values: Tensor) -> Tensor:
        """Return the codes of numbers on the grid; -0 has the sign bit. NaN has no code."""
        refuse_nan(values)
        magnitude = values.abs()
        exponent = floor_log2(magnitude).clamp_(min=self.min_exponent)
        significand = magnitude / power_of_two(exponent - self.mantissa, values.dtype)
        code = ((exponent - self.min_exponent).long() << self.mantissa) + significand.long()
        return code | (values.signbit().long() << self._code_width)

    def decode(self, codes: Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
        """Return the numbers of codes."""
        negative = (codes >> self._code_width) & 1
        code = codes & ((1 << self._code_width) - 1)
        binade = (code >> self.mantissa).clamp(min=1)
        significand = code - ((binade - 1) << self.mantissa)
        step = power_of_two(binade - 1 + self.min_exponent - self.mantissa, dtype)
        return significand.to(dtype) * step * (1 - 2 * negative).to(dtype)

    def all_codes(self) -> Tensor:
        """Return all codes, positive ones first."""
        positive = torch.arange(self._top_code + 1)
        return torch.cat([positive, positive | (1 << self._code_width)])

    @property
    def _top_code(self) -> int:
        significand, exponent = math.frexp(self.largest)
        binade = exponent - 1 - self.min_exponent
        return (binade << self.mantissa) + int(significand * 2 ** (self.mantissa + 1))

    @property
    def _code_width(self) -> int:
        return self._top_code.bit_length()

    def _at_most(self, top: float) -> float:
        """Return the largest number of the grid up to `top`."""
        step = 2.0 ** (max(math.frexp(top)[1] - 1, self.min_exponent) - self.mantissa)
        return math.floor(top / step) * step

    def is_rounded_by_sum(self, dtype: torch.dtype = torch.float32) -> bool:
        """Whether the magic number of the largest binade is finite and has room for its sum with y."""
        width = mantissa_width(dtype)
        return self.mantissa <= width - 2 and math.log2(self.largest) + width - self.mantissa + 1 < _TOP[dtype]

    def _to_even_powers(self, y: Tensor) -> Tensor:
        """Round to 0 and powers of two, for a grid without mantissa; ties go to the even code.

        This works on the bits, without branches: the exponent field is rounded by the bits below it.
        """
        indicator = y.abs().mul_(2.0**-self.min_exponent).round_().clamp_(max=1.0)  # 0 where the result is 0
        power = nearest_even_power_of_two(y, odd_exponents_are_even=self.min_exponent % 2 == 0)
        return power.clamp_(min=2.0**self.min_exponent).mul_(indicator)

    def _to_powers(self, y: Tensor, rounding: Rounding) -> Tensor:
        power = power_of_two_below(y).clamp_(min=2.0**self.min_exponent)
        ratio = y.abs() / power  # below 2; below 1 only if y is below the smallest power
        small = ratio < 1
        up = rounds_up(torch.where(small, ratio, ratio - 1), y < 0, rounding)
        nearest = ((~small).to(y.dtype) + up.to(y.dtype)) * power
        return torch.where(y.isnan(), y, nearest)


_TOP = {torch.float32: 127, torch.float64: 1023}

ElementName = Literal["e4m3", "e5m2", "e3m2", "e2m3", "e2m1"]
ELEMENTS: dict[ElementName, Grid] = {
    "e5m2": Grid(mantissa=2, min_exponent=-14, largest=57344.0),
    "e4m3": Grid(mantissa=3, min_exponent=-6, largest=448.0),
    "e3m2": Grid(mantissa=2, min_exponent=-2, largest=28.0),
    "e2m3": Grid(mantissa=3, min_exponent=0, largest=7.5),
    "e2m1": Grid(mantissa=1, min_exponent=0, largest=6.0),
}
"""The element types of the OCP formats."""


def element_width(name: ElementName) -> int:
    """Return the bits of an element: the two digits of its name, and one for the sign."""
    return 1 + int(name[1]) + int(name[3])


@dataclass(frozen=True)
class IntegerGrid:
    """The integers from -limit to limit, which are their own codes."""

    limit: int

    def round_(self, x: Tensor, rounding: Rounding = "nearest_even") -> Tensor:
        """Round to the nearest values, saturating, in place if possible; use the return value."""
        return round_(x, rounding).clamp_(-self.limit, self.limit)

    def in_loop(self, rounding: Rounding) -> Element | None:
        """Return how a compiled loop rounds to these integers."""
        return integer_element(rounding, -self.limit, self.limit)

    def integers(self, values: Tensor) -> tuple[Tensor, Tensor]:
        """Return numbers on the grid as integers, and the unit of each."""
        return self.encode(values), torch.ones_like(values)

    def encode(self, values: Tensor) -> Tensor:
        """Return the codes of numbers on the grid."""
        refuse_nan(values)
        return values.long()

    def decode(self, codes: Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
        """Return the numbers of codes."""
        return codes.to(dtype)

    def all_codes(self) -> Tensor:
        """Return all codes."""
        return torch.arange(-self.limit, self.limit + 1)


@dataclass(frozen=True, kw_only=True)
class OnGrid(Rounded, Format):
    """A format whose values are those of one grid, independently of the data."""

    is_symmetric = True

    @property
    @abstractmethod
    def grid(self) -> Grid:
        """The values of the format."""

    def rounds_rows_independently(self, x: Tensor) -> bool:
        return True

    @cached_property
    def _element_in_loop(self) -> Element | None:
        return self.grid.in_loop(self.rounding)

    def quantize(self, x: Tensor) -> Tensor:
        # torch.compile does not trace cached properties.
        fast = None if torch.compiler.is_compiling() else round_on_grid(x, self._element_in_loop)
        return self.rounded(x).to(x.dtype) if fast is None else fast

    def rounded(self, x: Tensor) -> Tensor:
        """Return the nearest values that do not overflow the dtype of `x`, in float32 or float64."""
        return self.grid.round(working(x), self.rounding, largest_of(x.dtype))

    def integers(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return the significands, and for each the power of two that is its unit."""
        return self.grid.integers(self.rounded(x))

    def encode(self, x: Tensor) -> Encoded:
        return self.grid.encode(self.rounded(x)), ()

    def decode(self, codes: Tensor, scales: Scales = ()) -> Tensor:
        return self.grid.decode(codes)

    def all_codes(self) -> Tensor:
        return self.grid.all_codes()
