"""IEEE half precision.

Rounded explicitly instead of by a cast, which a compiler may remove.
"""

from __future__ import annotations

from dataclasses import dataclass

from chop.formats.base import register_format
from chop.formats.minifloat import Grid, OnGrid

_GRID = Grid(mantissa=10, min_exponent=-14, largest=65504.0)


@register_format("float16")
@dataclass(frozen=True)
class Float16(OnGrid):
    """IEEE half precision: 5 exponent bits and 10 mantissa bits, saturating."""

    floating_point = True

    @property
    def width(self) -> int:
        return 16

    @property
    def grid(self) -> Grid:
        return _GRID
