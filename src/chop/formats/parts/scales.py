"""How a scale follows from the largest magnitude of a block: for tensors, and for compiled loops."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass

from torch import Tensor

from chop.formats.kernels.families import Scale
from chop.formats.kernels.loops.parameters import ScaleParameters
from chop.formats.parts.bits import exact_power_of_two_below


@dataclass(frozen=True)
class PowerScale:
    """The largest power of two up to the maximum, times `factor`; from `low` to `high`, and that times `unit`.

    It is doubled for maxima above `above` times that power of two; if `inclusive`, also for those equal to it.
    """

    low: float
    high: float
    factor: float = 1.0
    unit: float = 1.0
    above: float = math.inf
    inclusive: bool = False

    def of(self, largest: Tensor) -> Tensor:
        """Return the scales of blocks with these maxima."""
        power = exact_power_of_two_below(largest)
        bound = power * self.above
        is_doubled = largest >= bound if self.inclusive else largest > bound
        scale = power * self.factor * (1 + is_doubled.to(power.dtype))
        return scale.clamp_(self.low, self.high).mul_(self.unit)

    def in_loop(self) -> Scale:
        """Return how a compiled loop computes the same."""
        return Scale("power", ScaleParameters(**asdict(self)))
