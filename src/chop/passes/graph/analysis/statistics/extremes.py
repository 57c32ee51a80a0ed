"""The smallest and the largest of values that come in parts."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, nan

import torch
from torch import Tensor

from chop.passes.graph.analysis.statistics.sample import Sample


@dataclass(frozen=True)
class Extremes:
    """Smallest and largest value of each group, in double precision; inf and -inf where there is none."""

    low: Tensor
    high: Tensor

    @classmethod
    def of(cls, sample: Sample) -> Extremes:
        low = sample.fill(sample.values, inf).amin(1)
        high = sample.fill(sample.values, -inf).amax(1)
        return cls(low.double(), high.double())

    def merged(self, other: Extremes) -> Extremes:
        return Extremes(torch.minimum(self.low, other.low), torch.maximum(self.high, other.high))


def as_range(low: Tensor, high: Tensor, count: Tensor) -> dict[str, Tensor]:
    """The result of a statistic that is a range; NaN for a group without values."""
    ends = {"min": low, "max": high, "range": high - low}
    return {name: end.masked_fill(count == 0, nan) for name, end in ends.items()}
