"""Eight-bit floats as hardware has them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from torch import Tensor

from chop.formats.base import Encoded, Format, Scales, param, register_format
from chop.formats.bits import working
from chop.formats.elements import ELEMENTS
from chop.formats.rounding import Rounded


@register_format("fp8")
@dataclass(frozen=True)
class FP8(Rounded, Format):
    """OFP8 E4M3 or E5M2, saturating."""

    floating_point = True

    element: Literal["e4m3", "e5m2"] = param("e4m3", search=("e4m3", "e5m2"), help="exponent and mantissa bits")

    @property
    def width(self) -> int:
        return 8

    def quantize(self, x: Tensor) -> Tensor:
        return ELEMENTS[self.element].round(working(x), self.rounding).to(x.dtype)

    def integers(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return ELEMENTS[self.element].integers(working(self.quantize(x)))

    def encode(self, x: Tensor) -> Encoded:
        return ELEMENTS[self.element].encode(working(self.quantize(x))), ()

    def decode(self, codes: Tensor, scales: Scales = ()) -> Tensor:
        return ELEMENTS[self.element].decode(codes)

    def all_codes(self) -> Tensor:
        return ELEMENTS[self.element].all_codes()
