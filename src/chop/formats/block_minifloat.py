"""Small floats with a shared exponent bias per block."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from torch import Tensor

from chop.formats.base import check_range, param, register_format
from chop.formats.bits import exact_power_of_two_below
from chop.formats.kernels.families import Scale, power_scale
from chop.formats.minifloat import Grid
from chop.formats.shared_bias import SharedBias


@register_format("block_minifloat")
@dataclass(frozen=True)
class BlockMinifloat(SharedBias):
    """`minifloat_ieee` with an exponent bias per block, chosen so that the block's maximum is in the top binade."""

    floating_point = True

    width: int = param(8, search=(4, 6, 8), help="bits per element, sign included")
    exponent_width: int = param(4, search=(2, 3, 4), help="bits of the exponent")

    def __post_init__(self) -> None:
        check_range("width", self.width, 2, 23)
        check_range("exponent_width", self.exponent_width, 1, min(6, self.width - 1))
        self.check_shared()

    def scale(self, largest: Tensor) -> Tensor:
        return exact_power_of_two_below(largest).clamp_(*self._powers)

    @cached_property
    def loop_scale(self) -> Scale:
        return power_scale(*self._powers)

    @property
    def _powers(self) -> tuple[float, float]:
        return self.at_top(2**self.exponent_width - 1)

    @property
    def grid(self) -> Grid:
        """The values of a block whose top binade begins at 1."""
        mantissa = self.width - 1 - self.exponent_width
        return Grid(mantissa, 2 - 2**self.exponent_width, 2 - 2.0**-mantissa)
