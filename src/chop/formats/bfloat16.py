"""Brain floating point.

Rounded explicitly instead of by a cast, which a compiler may remove.
"""

from __future__ import annotations

from dataclasses import dataclass

from chop.formats.base import register_format
from chop.formats.minifloat import Grid, OnGrid

_GRID = Grid(mantissa=7, min_exponent=-126, largest=255 * 2.0**120)


@register_format("bfloat16")
@dataclass(frozen=True)
class BFloat16(OnGrid):
    """bfloat16: 8 exponent bits and 7 mantissa bits, saturating."""

    floating_point = True

    @property
    def width(self) -> int:
        return 16

    @property
    def grid(self) -> Grid:
        return _GRID
