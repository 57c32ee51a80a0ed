"""Quantiles of any shares."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from chop.statistics.base import Reduction, register_statistic
from chop.statistics.distribution import Distribution
from chop.statistics.layout import Sample

SHARES = (0.001, 0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99, 0.999)


@dataclass(eq=False)
class OfDistribution(Reduction[Distribution]):
    """A statistic that follows from the distribution of the values.

    Exact for up to 65536 values, or 64 of each result if there are more than 1024 results; beyond, each value
    is known to 0.8 % of itself (`RELATIVE_ERROR`), but for the smallest and the largest, which stay exact.
    """

    precise: bool = False
    """Keep all values, so that results are exact; memory then grows with the number of samples."""

    def observe(self, sample: Sample) -> Distribution:
        return sample.once(Distribution.all_of if self.precise else Distribution.of)


@register_statistic("quantiles")
@dataclass(eq=False)
class Quantiles(OfDistribution):
    """The values below which lie the shares asked for, as `torch.quantile` has them, along a last dimension.

    `relative_error` is how far each may be from the exact one, relative to it: 0, or 0.8 % for much data; of one
    between two values, relative to the larger of these.
    """

    shares: tuple[float, ...] = SHARES

    def __post_init__(self) -> None:
        super().__post_init__()
        check_shares(self.shares)

    def summarize(self, state: Distribution, count: Tensor) -> dict[str, Tensor]:
        return {"quantiles": state.quantiles(self.shares, count), "relative_error": state.relative_error()}


def check_shares(shares: tuple[float, ...]) -> None:
    if not shares or not all(0 <= share <= 1 for share in shares):
        raise ValueError(f"'shares' must be numbers from 0 to 1, got {list(shares)}")
