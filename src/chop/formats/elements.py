"""The element types of the OCP formats."""

from __future__ import annotations

from typing import Literal

from chop.formats.minifloat import Grid

ElementName = Literal["e4m3", "e5m2", "e3m2", "e2m3", "e2m1"]

ELEMENTS: dict[ElementName, Grid] = {
    "e5m2": Grid(mantissa=2, min_exponent=-14, largest=57344.0),
    "e4m3": Grid(mantissa=3, min_exponent=-6, largest=448.0),
    "e3m2": Grid(mantissa=2, min_exponent=-2, largest=28.0),
    "e2m3": Grid(mantissa=3, min_exponent=0, largest=7.5),
    "e2m1": Grid(mantissa=1, min_exponent=0, largest=6.0),
}


def element_width(name: ElementName) -> int:
    """Return the bits of an element: the two digits of its name, and one for the sign."""
    return 1 + int(name[1]) + int(name[3])
