"""The range of all values."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from chop.statistics.base import Reduction, register_statistic
from chop.statistics.extremes import Extremes, as_range
from chop.statistics.layout import Sample


@register_statistic("range_min_max")
@dataclass(eq=False)
class RangeMinMax(Reduction[Extremes]):
    """From the smallest to the largest value, infinities included."""

    def observe(self, sample: Sample) -> Extremes:
        return sample.once(Extremes.of)

    def summarize(self, state: Extremes, count: Tensor) -> dict[str, Tensor]:
        return as_range(state.low, state.high, count)
