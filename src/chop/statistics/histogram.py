"""A picture of the distribution."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from chop.statistics.base import register_statistic
from chop.statistics.distribution import Distribution
from chop.statistics.extremes import as_range
from chop.statistics.quantiles import OfDistribution


@register_statistic("histogram")
@dataclass(eq=False)
class Histogram(OfDistribution):
    """How many values are in each of `bins` even bins from the smallest to the largest value, as `counts`.

    `edges` has one more. The last bin holds its upper edge too; infinities are in none. For much data, values
    closer to an edge than 1.6 % of themselves may be in the bin beside it. `zeros` is how many values are 0.
    """

    bins: int = 64

    def __post_init__(self) -> None:
        super().__post_init__()
        check_bins(self.bins)

    def summarize(self, state: Distribution, count: Tensor) -> dict[str, Tensor]:
        return {
            **as_range(state.extremes.low, state.extremes.high, count),
            **bars(state, self.bins, count),
        }


def bars(state: Distribution, num_bins: int, count: Tensor) -> dict[str, Tensor]:
    """The part of a result that can be drawn."""
    edges, counts = state.bars(num_bins, count)
    return {"zeros": state.num_zeros(count), "edges": edges, "counts": counts}


def check_bins(bins: int) -> None:
    if not 1 <= bins <= 4096:
        raise ValueError(f"'bins' must be from 1 to 4096, got {bins}")
