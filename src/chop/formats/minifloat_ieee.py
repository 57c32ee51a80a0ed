"""Small floats like those of IEEE 754, without infinities and NaN."""

from __future__ import annotations

import math
from dataclasses import dataclass

from chop.formats.base import check_range, param, register_format
from chop.formats.minifloat import Grid, OnGrid


@register_format("minifloat_ieee")
@dataclass(frozen=True)
class MinifloatIEEE(OnGrid):
    """Sign, exponent, mantissa with a hidden bit, subnormals; every code is a number (the largest E4M3 is 480)."""

    floating_point = True

    width: int = param(8, search=(4, 6, 8), help="bits per element, sign included")
    exponent_width: int = param(4, search=(2, 3, 4, 5), help="bits of the exponent")
    exponent_bias: int | None = param(
        None, follows="exponent_width", help="subtracted from the stored exponent; None: half of its range"
    )

    def __post_init__(self) -> None:
        check_range("width", self.width, 2, 24)
        check_range("exponent_width", self.exponent_width, 1, min(8, self.width - 1))
        if self.exponent_bias is None:
            object.__setattr__(self, "exponent_bias", self._bias)
        # The smallest normal and the smallest subnormal must be float32 numbers.
        check_range("exponent_bias", self._bias, -126, min(127, 150 - self.grid.mantissa))

    @property
    def _bias(self) -> int:
        return 2 ** (self.exponent_width - 1) - 1 if self.exponent_bias is None else self.exponent_bias

    @property
    def grid(self) -> Grid:
        mantissa = self.width - 1 - self.exponent_width
        top = min(2**self.exponent_width - 1 - self._bias, 127)  # the limit of float32
        return Grid(mantissa, 1 - self._bias, math.ldexp(2 - 2.0**-mantissa, top))
