"""Mean magnitude."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from chop.statistics.base import Reduction, register_statistic
from chop.statistics.layout import GroupedValues
from chop.statistics.state import check_tensor


@dataclass(frozen=True)
class Sums:
    """One sum per group, in double precision."""

    total: Tensor
    """The sums; the field's name is in profile files."""

    def merged(self, other: Sums) -> Sums:
        return Sums(self.total + other.total)

    def check(self, count: Tensor) -> None:
        check_tensor(self.total, torch.float64, len(count))


@register_statistic("abs_mean")
@dataclass(eq=False)
class AbsMean(Reduction[Sums]):
    """The mean of |x|, as `abs_mean`."""

    def observe(self, grouped: GroupedValues) -> Sums:
        return Sums(grouped.fill(grouped.values, 0.0).abs().sum(1, dtype=torch.float64))

    def summarize(self, state: Sums, count: Tensor) -> dict[str, Tensor]:
        return {"abs_mean": state.total / count}
