"""Statistics of a distribution: quantiles, a histogram with even bins, and a summary for reports."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from chop.statistics.base import Reduction, register_statistic
from chop.statistics.distribution import Distribution, as_range
from chop.statistics.layout import GroupedValues
from chop.statistics.moments import Moments

SHARES = (0.001, 0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99, 0.999)


@dataclass(eq=False)
class DistributionStatistic(Reduction[Distribution]):
    """A statistic that is computed from the distribution of the values.

    Exact for up to 65536 values, or 64 values per group if there are more than 1024 groups. Above that, each value
    is known within 0.8 % (`RELATIVE_ERROR`); the smallest and the largest stay exact.
    """

    precise: bool = False
    """Keep all values, so that results are exact; memory then grows with the number of values."""

    def observe(self, grouped: GroupedValues) -> Distribution:
        return grouped.once(Distribution.all_of if self.precise else Distribution.of)


@register_statistic("quantiles")
@dataclass(eq=False)
class Quantiles(DistributionStatistic):
    """The values below which the given shares of all values lie, as `torch.quantile` computes them.

    They are along the last dimension of `quantiles`. `relative_error` bounds the error of each, relative to its
    exact value: 0, or 0.8 % above 65536 values. For a quantile between two values it is relative to the larger one.
    """

    shares: tuple[float, ...] = SHARES
    """The shares of the values, from 0 to 1."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_shares(self.shares)

    def summarize(self, state: Distribution, count: Tensor) -> dict[str, Tensor]:
        return {"quantiles": state.quantiles(self.shares, count), "relative_error": state.relative_error()}


def check_shares(shares: tuple[float, ...]) -> None:
    """Raise an error unless all shares are between 0 and 1."""
    if not shares or not all(0 <= share <= 1 for share in shares):
        raise ValueError(f"'shares' must be numbers from 0 to 1, got {list(shares)}")


@register_statistic("histogram")
@dataclass(eq=False)
class Histogram(DistributionStatistic):
    """The number of values in each of `bins` even bins from the smallest to the largest value, as `counts`.

    `edges` has one entry more than `counts`. The last bin includes its upper edge; infinities are in no bin. Above
    65536 values, a value closer to an edge than 1.6 % of itself may be counted in the bin on the other side.
    `zeros` is the number of values that are 0.
    """

    bins: int = 64
    """The number of bins."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_bins(self.bins)

    def summarize(self, state: Distribution, count: Tensor) -> dict[str, Tensor]:
        return {
            **as_range(state.extremes.low, state.extremes.high, count),
            **bars(state, self.bins, count),
        }


def bars(state: Distribution, num_bins: int, count: Tensor) -> dict[str, Tensor]:
    """Return `zeros`, `edges` and `counts` for results."""
    edges, counts = state.bars(num_bins, count)
    return {"zeros": state.num_zeros(count), "edges": edges, "counts": counts}


def check_bins(bins: int) -> None:
    """Raise an error unless the number of bins is between 1 and 4096."""
    if not 1 <= bins <= 4096:
        raise ValueError(f"'bins' must be from 1 to 4096, got {bins}")


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
