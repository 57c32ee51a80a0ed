"""Mean and spread of values that come in parts."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from chop.passes.graph.analysis.statistics.sample import Sample


@dataclass(frozen=True)
class Moments:
    """Count, sum, and sum of squared deviations from the mean, of each group, in double precision."""

    count: Tensor
    total: Tensor
    squares: Tensor

    @classmethod
    def of(cls, sample: Sample) -> Moments:
        values = sample.values.double()
        count = sample.count.double()
        total = sample.fill(values, 0.0).sum(1)
        deviations = sample.fill(values - (total / count).unsqueeze(1), 0.0)
        return cls(count, total, torch.linalg.vecdot(deviations, deviations))

    def merged(self, other: Moments) -> Moments:
        """The moments of both together (Chan, Golub and LeVeque 1979)."""
        count = self.count + other.count
        squares = self.squares + other.squares
        between = (other.mean - self.mean).square() * (self.count * other.count / count)
        # A group without values has no mean, and adds nothing.
        nothing_between = (self.count == 0) | (other.count == 0)
        return Moments(count, self.total + other.total, squares + between.masked_fill(nothing_between, 0.0))

    @property
    def mean(self) -> Tensor:
        return self.total / self.count

    @property
    def variance(self) -> Tensor:
        """Unbiased; NaN for fewer than two values."""
        return self.squares / (self.count - 1).clamp(min=0)
