"""The 8-bit floats of the OCP standard."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from chop.formats.base import param, register_format
from chop.formats.elements import ELEMENTS
from chop.formats.minifloat import Grid, OnGrid


@register_format("fp8")
@dataclass(frozen=True)
class FP8(OnGrid):
    """OCP 8-bit floating point, E4M3 or E5M2, saturating."""

    floating_point = True

    element: Literal["e4m3", "e5m2"] = param("e4m3", search=("e4m3", "e5m2"), help="exponent and mantissa bits")

    @property
    def width(self) -> int:
        return 8

    @property
    def grid(self) -> Grid:
        return ELEMENTS[self.element]
