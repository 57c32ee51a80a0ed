"""Powers of two with a shared exponent bias per block."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from torch import Tensor

from chop.formats.base import check_range, param, register_format
from chop.formats.bits import exact_power_of_two_below
from chop.formats.kernels.families import Scale, power_scale
from chop.formats.minifloat import Grid
from chop.formats.shared_bias import SharedBias


@register_format("block_log")
@dataclass(frozen=True)
class BlockLog(SharedBias):
    """`log` with an exponent bias per block, chosen so that the top code is the power nearest to its maximum."""

    width: int = param(8, search=(3, 4, 6, 8), help="bits per element, sign included")

    def __post_init__(self) -> None:
        check_range("width", self.width, 2, 8)
        self.check_shared()

    def scale(self, largest: Tensor) -> Tensor:
        power = exact_power_of_two_below(largest)
        nearest = power * (1 + (largest > 1.5 * power).to(power.dtype)).clamp_(max=2.0)
        return nearest.clamp_(*self.at_top(self._top_code))

    @cached_property
    def loop_scale(self) -> Scale:
        return power_scale(*self.at_top(self._top_code), above=1.5)

    def quotients(self, values: Tensor, scale: Tensor) -> Tensor:
        # The smallest quotients are subnormal in float32: just below half of the smallest power becomes half of it.
        exact = values if self.rounding == "nearest_even" else values.double()
        return exact.div(scale)

    @property
    def _top_code(self) -> int:
        return int(2 ** (self.width - 1)) - 1

    @property
    def grid(self) -> Grid:
        """The values of a block whose top code is 1."""
        return Grid(0, 1 - self._top_code, 1.0)
