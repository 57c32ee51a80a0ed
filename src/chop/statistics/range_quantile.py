"""The range that leaves out the same share of values at both ends."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from chop.statistics.base import register_statistic
from chop.statistics.distribution import Distribution
from chop.statistics.extremes import as_range
from chop.statistics.quantiles import OfDistribution


@register_statistic("range_quantile")
@dataclass(eq=False)
class RangeQuantile(OfDistribution):
    """From the quantile 1 - q to the quantile q, as `torch.quantile` has them; as exact as `quantiles`."""

    quantile: float = 0.97

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0.5 <= self.quantile <= 1:
            raise ValueError(f"'quantile' must be from 0.5 to 1, got {self.quantile}")

    def summarize(self, state: Distribution, count: Tensor) -> dict[str, Tensor]:
        low, high = state.quantiles((1 - self.quantile, self.quantile), count).unbind(1)
        return as_range(low, high, count)
