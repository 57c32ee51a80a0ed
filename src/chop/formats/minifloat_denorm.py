"""Small floats without a hidden bit."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from chop.formats.base import Encoded, Scales, check_range, param, register_format
from chop.formats.bits import floor_log2, power_of_two, refuse_nan
from chop.formats.minifloat import Grid, OnGrid


@register_format("minifloat_denorm")
@dataclass(frozen=True)
class MinifloatDenorm(OnGrid):
    """Sign, exponent e and M-bit mantissa m without a hidden bit: 2**(e - bias) * m / 2**M."""

    floating_point = True

    width: int = param(8, search=(4, 6, 8), help="bits per element, sign included")
    exponent_width: int = param(4, search=(2, 3, 4, 5), help="bits of the exponent")
    exponent_bias: int | None = param(
        None, follows="exponent_width", help="subtracted from the stored exponent; None: half of its range"
    )

    def __post_init__(self) -> None:
        check_range("width", self.width, 3, 24)
        check_range("exponent_width", self.exponent_width, 1, min(8, self.width - 2))
        if self.exponent_bias is None:
            object.__setattr__(self, "exponent_bias", self._bias)
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
    def _bias(self) -> int:
        return 2 ** (self.exponent_width - 1) - 1 if self.exponent_bias is None else self.exponent_bias

    @property
    def _mantissa(self) -> int:
        return self.width - 1 - self.exponent_width

    @property
    def grid(self) -> Grid:
        """The same values, as a grid with a hidden bit."""
        top = 2**self.exponent_width - 1 - self._bias
        return Grid(self._mantissa - 1, -self._bias - 1, math.ldexp(1 - 2.0**-self._mantissa, top))
