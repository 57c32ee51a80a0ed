"""Smallest and largest of values that arrive in several tensors."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, nan

import torch
from torch import Tensor

from chop.statistics.layout import GroupedValues
from chop.statistics.state import check_tensor


@dataclass(frozen=True)
class Extremes:
    """Smallest and largest value per group, in double precision; inf and -inf for a group without values."""

    low: Tensor
    high: Tensor

    @classmethod
    def of(cls, grouped: GroupedValues) -> Extremes:
        """Return the extremes of one tensor."""
        low, high = grouped.ends
        if grouped.nans is not None:
            low, high = grouped.fill(grouped.values, inf).amin(1), grouped.fill(grouped.values, -inf).amax(1)
        return cls(low.double(), high.double())

    def merged(self, other: Extremes) -> Extremes:
        return Extremes(torch.minimum(self.low, other.low), torch.maximum(self.high, other.high))

    def largest_magnitude(self) -> float:
        """Return the largest magnitude of all groups; 0 if there are no values."""
        magnitude = torch.maximum(self.low.abs(), self.high.abs())
        return float(torch.where(self.low <= self.high, magnitude, 0.0).amax())

    def check(self, count: Tensor) -> None:
        for tensor in (self.low, self.high):
            check_tensor(tensor, torch.float64, len(count))
        if not (self.low <= self.high).equal(count > 0):
            raise ValueError("a largest value is below the smallest, or belongs to a group without values")


def as_range(low: Tensor, high: Tensor, count: Tensor) -> dict[str, Tensor]:
    """Return `min`, `max` and `range` for results; NaN for a group without values."""
    ends = {"min": low, "max": high, "range": high - low}
    if bool(count.all()):
        return ends
    return {name: end.masked_fill(count == 0, nan) for name, end in ends.items()}
