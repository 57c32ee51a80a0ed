"""The range that leaves out the same share of values at both ends."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from chop.passes.graph.analysis.statistics.base import Reduction, register_statistic
from chop.passes.graph.analysis.statistics.extremes import Extremes, as_range
from chop.passes.graph.analysis.statistics.log_histogram import LogHistogram
from chop.passes.graph.analysis.statistics.sample import Sample

Ranked = Callable[[Tensor], Tensor]
"""From ranks, one a group, to the values that have so many others below."""

EXACT_VALUES = 1 << 16
EXACT_VALUES_EACH = 64


@dataclass(frozen=True)
class Distribution:
    """All values while they are few, else a histogram of most and the rest. The extremes are exact in any case.

    What it tells depends on the values only, not on their order, nor on the parts that they came in.
    """

    extremes: Extremes
    values: Tensor
    """[groups, values of each], NaNs included; values are counted many at a time, which is faster."""
    histogram: LogHistogram | None = None

    @classmethod
    def of(cls, sample: Sample) -> Distribution:
        extremes = Extremes.of(sample)
        if _few(sample.values):
            return cls(extremes, sample.values.clone())
        none = torch.empty_like(sample.values[:, :0])
        return cls(extremes, none, LogHistogram.of(sample.values, sample.nans))

    def merged(self, other: Distribution) -> Distribution:
        extremes = self.extremes.merged(other.extremes)
        values = torch.cat([self.values, other.values], dim=1)
        both = Distribution(extremes, values, _merged(self.histogram, other.histogram))
        return both if _few(values) else both.counted()

    def counted(self) -> Distribution:
        """The same with all values in the histogram."""
        histogram = _merged(self.histogram, LogHistogram.of(self.values, self.values.isnan()))
        return Distribution(self.extremes, torch.empty_like(self.values[:, :0]), histogram)

    def quantiles(self, shares: tuple[float, ...], count: Tensor) -> list[Tensor]:
        """Of each group the values that these shares of all lie below, linear between neighbours."""
        last = (count - 1).clamp(min=0)
        ranked = self._exactly_ranked() if self.histogram is None else self._roughly_ranked(count, last)

        def quantile(share: float) -> Tensor:
            position = share * last.double()
            below, above = ranked(position.floor().long()), ranked(position.ceil().long())
            weight = position - position.floor()
            between = below * (1 - weight) + above * weight
            return torch.where((weight == 0) | (below == above), below, between)

        return [quantile(share) for share in shares]

    def _exactly_ranked(self) -> Ranked:
        ordered = self.values.double().sort(1).values  # NaNs come last
        return lambda rank: ordered.gather(1, rank.unsqueeze(1)).squeeze(1)

    def _roughly_ranked(self, count: Tensor, last: Tensor) -> Ranked:
        histogram = self.counted().histogram
        assert histogram is not None, "that is what counting makes"

        def ranked(rank: Tensor) -> Tensor:
            value = histogram.ranked(rank, count).clamp(self.extremes.low, self.extremes.high)
            value = torch.where(rank == last, self.extremes.high, value)
            return torch.where(rank == 0, self.extremes.low, value)

        return ranked


def _merged(first: LogHistogram | None, second: LogHistogram | None) -> LogHistogram | None:
    return first.merged(second) if first is not None and second is not None else first or second


def _few(values: Tensor) -> bool:
    return values.numel() <= max(EXACT_VALUES, EXACT_VALUES_EACH * len(values))


@register_statistic("range_quantile")
@dataclass(eq=False)
class RangeQuantile(Reduction[Distribution]):
    """From the quantile 1 - q to the quantile q, as `torch.quantile` has them.

    Exact for up to 65536 values, or 64 of each result if there are more than 1024 results; beyond, each value
    is known to 0.8 % (`RELATIVE_ERROR`), but for the smallest and the largest.
    """

    quantile: float = 0.97

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0.5 <= self.quantile <= 1:
            raise ValueError(f"'quantile' must be from 0.5 to 1, got {self.quantile}")

    def observe(self, sample: Sample) -> Distribution:
        return Distribution.of(sample)

    def summarize(self, state: Distribution, count: Tensor) -> dict[str, Tensor]:
        low, high = state.quantiles((1 - self.quantile, self.quantile), count)
        return as_range(low, high, count)
