"""Histogram with even bins."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from chop.statistics.base import register_statistic
from chop.statistics.distribution import Distribution
from chop.statistics.extremes import as_range
from chop.statistics.quantiles import DistributionStatistic


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
