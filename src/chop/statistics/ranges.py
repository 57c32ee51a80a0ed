"""Ranges of values: all of them, a number of standard deviations, or all but a share at each end."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from chop.statistics.base import Reduction, register_statistic
from chop.statistics.distribution import Distribution, Extremes, as_range
from chop.statistics.distribution_statistics import DistributionStatistic
from chop.statistics.layout import GroupedValues
from chop.statistics.moments import Moments


@register_statistic("range_min_max")
@dataclass(eq=False)
class RangeMinMax(Reduction[Extremes]):
    """From the smallest to the largest value, infinities included."""

    needs_moments_only = True

    def observe(self, grouped: GroupedValues) -> Extremes:
        return grouped.once(Extremes.of)

    def summarize(self, state: Extremes, count: Tensor) -> dict[str, Tensor]:
        return as_range(state.low, state.high, count)


@register_statistic("range_n_sigma")
@dataclass(eq=False)
class RangeNSigma(Reduction[Moments]):
    """From `mean - num_sigma x deviation` to `mean + num_sigma x deviation`, with the unbiased deviation."""

    needs_moments_only = True

    num_sigma: float = 3.0
    """The number of standard deviations to each side of the mean."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.num_sigma > 0:
            raise ValueError(f"'num_sigma' must be above 0, got {self.num_sigma}")

    def observe(self, grouped: GroupedValues) -> Moments:
        return grouped.once(Moments.of)

    def summarize(self, state: Moments, count: Tensor) -> dict[str, Tensor]:
        reach = self.num_sigma * state.variance.sqrt()
        return {"min": state.mean - reach, "max": state.mean + reach, "range": 2 * reach}


@register_statistic("range_quantile")
@dataclass(eq=False)
class RangeQuantile(DistributionStatistic):
    """From the quantile `1 - q` to the quantile `q`, as `torch.quantile` computes them; as exact as `quantiles`."""

    quantile: float = 0.97
    """The upper quantile, from 0.5 to 1."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0.5 <= self.quantile <= 1:
            raise ValueError(f"'quantile' must be from 0.5 to 1, got {self.quantile}")

    def summarize(self, state: Distribution, count: Tensor) -> dict[str, Tensor]:
        low, high = state.quantiles((1 - self.quantile, self.quantile), count).unbind(1)
        return as_range(low, high, count)
