"""Quantiles."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from chop.statistics.base import Reduction, register_statistic
from chop.statistics.distribution import Distribution
from chop.statistics.layout import GroupedValues

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
