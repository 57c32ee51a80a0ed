"""Microscaling floats."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from torch import Tensor

from chop.formats.base import param, register_format
from chop.formats.elements import ELEMENTS, ElementName, element_width
from chop.formats.kernels.families import Scale
from chop.formats.microscaling import Microscaled, block_scale, loop_block_scale
from chop.formats.minifloat import Grid


@register_format("mxfp")
@dataclass(frozen=True)
class MXFP(Microscaled):
    """OCP MXFP8, MXFP6 or MXFP4: small floats with a power-of-two scale per block."""

    floating_point = True

    element: ElementName = param("e4m3", search=("e4m3", "e3m2", "e2m3", "e2m1"), help="exponent and mantissa bits")

    def __post_init__(self) -> None:
        self.check_blocks()

    @property
    def width(self) -> int:
        return element_width(self.element)

    @property
    def grid(self) -> Grid:
        return ELEMENTS[self.element]

    def scale(self, largest: Tensor) -> Tensor:
        return block_scale(largest, self.scale_rule, self.grid.largest, self.grid.mantissa)

    @cached_property
    def loop_scale(self) -> Scale:
        return loop_block_scale(self.scale_rule, self.grid.largest, self.grid.mantissa)
