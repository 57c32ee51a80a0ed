"""Everything that a report shows about a tensor."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from chop.statistics.base import Reduction, register_statistic
from chop.statistics.distribution import Distribution
from chop.statistics.extremes import as_range
from chop.statistics.histogram import bars, check_bins
from chop.statistics.layout import GroupedValues
from chop.statistics.moments import Moments
from chop.statistics.quantiles import SHARES, check_shares


@dataclass(frozen=True)
class MomentsAndDistribution:
    """The state of `summary`."""

    moments: Moments
    distribution: Distribution

    def merged(self, other: MomentsAndDistribution) -> MomentsAndDistribution:
        return MomentsAndDistribution(
            self.moments.merged(other.moments), self.distribution.merged(other.distribution)
        )

    def check(self, count: Tensor) -> None:
        self.moments.check(count)
        self.distribution.check(count)


@register_statistic("summary")
@dataclass(eq=False)
class Summary(Reduction[MomentsAndDistribution]):
    """Range, mean, unbiased variance, zeros, quantiles and histogram, as the statistics with these names.

    Quantiles are as exact as those of `quantiles`. `nan_count` is always in the result, even if it is 0.
    """

    always_has_nan_count: ClassVar[bool] = True
    shares: tuple[float, ...] = SHARES
    """The shares of the values, from 0 to 1, whose quantiles are computed."""
    bins: int = 64
    """The number of bins of the histogram."""
    precise: bool = False
    """Keep all values, so that quantiles are exact; memory then grows with the number of values."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_shares(self.shares)
        check_bins(self.bins)

    def observe(self, grouped: GroupedValues) -> MomentsAndDistribution:
        moments = grouped.once(Moments.of)
        return MomentsAndDistribution(
            moments, grouped.once(Distribution.all_of if self.precise else Distribution.of)
        )

    def summarize(self, state: MomentsAndDistribution, count: Tensor) -> dict[str, Tensor]:
        distribution = state.distribution
        return {
            **as_range(distribution.extremes.low, distribution.extremes.high, count),
            "mean": state.moments.mean,
            "variance": state.moments.variance,
            "quantiles": distribution.quantiles(self.shares, count),
            "relative_error": distribution.relative_error(),
            **bars(distribution, self.bins, count),
        }
