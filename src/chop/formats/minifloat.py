"""Small floats of any width, with and without a hidden bit."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from chop.formats.parts.base import Encoded, Scales, check_range, param, register_format
from chop.formats.parts.bits import floor_log2, power_of_two, refuse_nan
from chop.formats.parts.grid import Grid, OnGrid


@dataclass(frozen=True)
class Minifloat(OnGrid):
    """A small float in which every code is a number."""

    floating_point = True

    width: int = param(8, search=(4, 6, 8), help="bits per element, sign included")
    exponent_width: int = param(4, search=(2, 3, 4, 5), help="bits of the exponent")
    exponent_bias: int | None = param(
        None, follows="exponent_width", help="subtracted from the stored exponent; None: half of its range"
    )

    def check_exponent(self, max_width: int) -> None:
        """Raise an error if the width of the exponent is outside its range, and set its bias if it is None."""
        check_range("exponent_width", self.exponent_width, 1, min(8, max_width))
        if self.exponent_bias is None:
            object.__setattr__(self, "exponent_bias", self._bias)

    @property
    def _bias(self) -> int:
        return 2 ** (self.exponent_width - 1) - 1 if self.exponent_bias is None else self.exponent_bias


@register_format("minifloat_ieee")
@dataclass(frozen=True)
class MinifloatIEEE(Minifloat):
    """Sign, exponent, mantissa with a hidden bit, subnormals; every code is a number (the largest E4M3 is 480)."""

    def __post_init__(self) -> None:
        check_range("width", self.width, 2, 24)
        self.check_exponent(self.width - 1)
        # The smallest normal and the smallest subnormal must be float32 numbers.
        check_range("exponent_bias", self._bias, -126, min(127, 150 - self.grid.mantissa))

    @property
    def grid(self) -> Grid:
        mantissa = self.width - 1 - self.exponent_width
        top = min(2**self.exponent_width - 1 - self._bias, 127)  # the limit of float32
        return Grid(mantissa, 1 - self._bias, math.ldexp(2 - 2.0**-mantissa, top))


@register_format("minifloat_denorm")
@dataclass(frozen=True)
class MinifloatDenorm(Minifloat):
    """Sign, exponent e and M-bit mantissa m without a hidden bit: 2**(e - bias) * m / 2**M."""

    def __post_init__(self) -> None:
        check_range("width", self.width, 3, 24)
        self.check_exponent(self.width - 2)
        check_range("exponent_bias", self._bias, 2**self.exponent_width - 129, min(125, 149 - self._mantissa))

    def encode(self, x: Tensor) -> Encoded:
        """Return the codes; if a number has several, the one with the smallest exponent."""
        values = self.rounded(x)
        refuse_nan(values)
        magnitude = values.abs()
        exponent = (floor_log2(magnitude) + 1 + self._bias).clamp_(min=0)
        mantissa = magnitude / power_of_two(exponent - self._bias - self._mantissa, values.dtype)
        code = (exponent.long() << self._mantissa) + mantissa.long()
        return code | (values.signbit().long() << (self.width - 1)), ()

    def decode(self, codes: Tensor, scales: Scales = ()) -> Tensor:
        mantissa = codes & ((1 << self._mantissa) - 1)
        exponent = (codes >> self._mantissa) & ((1 << self.exponent_width) - 1)
        sign = 1.0 - 2 * (codes >> (self.width - 1))
        return sign * mantissa * power_of_two(exponent - self._bias - self._mantissa, torch.float32)

    def all_codes(self) -> Tensor:
        return torch.arange(2**self.width)

    @property
    def _mantissa(self) -> int:
        return self.width - 1 - self.exponent_width

    @property
    def grid(self) -> Grid:
        """The same values, as a grid with a hidden bit."""
        top = 2**self.exponent_width - 1 - self._bias
        return Grid(self._mantissa - 1, -self._bias - 1, math.ldexp(1 - 2.0**-self._mantissa, top))
