"""Small floats in the manner of IEEE 754, without infinities and NaN."""

from __future__ import annotations

import math
from dataclasses import dataclass

from torch import Tensor

from chop.formats.base import Encoded, Format, Scales, check_range, param, register_format
from chop.formats.bits import working
from chop.formats.minifloat import Grid
from chop.formats.rounding import Rounded


@register_format("minifloat_ieee")
@dataclass(frozen=True)
class MinifloatIEEE(Rounded, Format):
    """Sign, exponent, mantissa with a hidden bit, subnormals; every code is a number (E4M3 tops at 480)."""

    floating_point = True

    width: int = param(8, search=(4, 6, 8), help="bits of an element, sign included")
    exponent_width: int = param(4, search=(2, 3, 4, 5), help="bits of the exponent")
    exponent_bias: int | None = param(None, help="subtracted from the stored exponent; None: half of its range")

    def __post_init__(self) -> None:
        check_range("width", self.width, 2, 24)
        check_range("exponent_width", self.exponent_width, 1, min(8, self.width - 1))
        if self.exponent_bias is None:
            object.__setattr__(self, "exponent_bias", self._bias)
        # The smallest normal and the smallest subnormal must exist in float32.
        check_range("exponent_bias", self._bias, -126, min(127, 150 - self._grid.mantissa))

    def quantize(self, x: Tensor) -> Tensor:
        return self._grid.round(working(x), self.rounding).to(x.dtype)

    def integers(self, x: Tensor) -> tuple[Tensor, Tensor]:
        significands, step = self._grid.integers(working(self.quantize(x)))
        return significands, step.to(x.dtype)

    def encode(self, x: Tensor) -> Encoded:
        return self._grid.encode(working(self.quantize(x))), ()

    def decode(self, codes: Tensor, scales: Scales = ()) -> Tensor:
        return self._grid.decode(codes)

    @property
    def _bias(self) -> int:
        return 2 ** (self.exponent_width - 1) - 1 if self.exponent_bias is None else self.exponent_bias

    @property
    def _grid(self) -> Grid:
        mantissa = self.width - 1 - self.exponent_width
        top = min(2**self.exponent_width - 1 - self._bias, 127)  # float32 ends there
        return Grid(mantissa, 1 - self._bias, math.ldexp(2 - 2.0**-mantissa, top))
