"""The distribution of values that arrive in several tensors: extremes, quantiles and histograms."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import cached_property, lru_cache
from math import inf, isfinite, nan
from typing import Any

import numpy as np
import torch
from torch import Tensor

from chop.statistics.layout import GroupedValues
from chop.statistics.log_histogram import RELATIVE_ERROR, ZERO, LogHistogram
from chop.statistics.state import check_tensor


@dataclass(frozen=True)
class Extremes:
    """Smallest and largest value per group, in double precision; inf and -inf for a group without values."""

    low: Tensor
    high: Tensor

    @classmethod
    def of(cls, grouped: GroupedValues) -> Extremes:
        """Return the extremes of one tensor."""
        low, high = grouped.ends
        if grouped.nans is not None:
            low, high = grouped.fill(grouped.values, inf).amin(1), grouped.fill(grouped.values, -inf).amax(1)
        return cls(low.double(), high.double())

    def merged(self, other: Extremes) -> Extremes:
        return Extremes(torch.minimum(self.low, other.low), torch.maximum(self.high, other.high))

    def largest_magnitude(self) -> float:
        """Return the largest magnitude of all groups; 0 if there are no values."""
        magnitude = torch.maximum(self.low.abs(), self.high.abs())
        return float(torch.where(self.low <= self.high, magnitude, 0.0).amax())

    def check(self, count: Tensor) -> None:
        for tensor in (self.low, self.high):
            check_tensor(tensor, torch.float64, len(count))
        if not (self.low <= self.high).equal(count > 0):
            raise ValueError("a largest value is below the smallest, or belongs to a group without values")


def as_range(low: Tensor, high: Tensor, count: Tensor) -> dict[str, Tensor]:
    """Return `min`, `max` and `range` for results; NaN for a group without values."""
    ends = {"min": low, "max": high, "range": high - low}
    if bool(count.all()):
        return ends
    return {name: end.masked_fill(count == 0, nan) for name, end in ends.items()}


Array = np.ndarray[Any, Any]

MAX_EXACT_VALUES = 1 << 16
"""Up to this number all values are kept, and quantiles are exact."""
MAX_EXACT_VALUES_PER_GROUP = 64
"""The same per group, if that is more in total."""


@dataclass(frozen=True)
class Distribution:
    """All values while there are few; after that a histogram, and the latest values. Extremes are exact.

    Results depend on the values only: not on their order, nor on how they are split into tensors.
    """

    extremes: Extremes
    parts: tuple[Tensor, ...]
    """Values that are not in the histogram yet, in shape [groups, values per group], NaNs included. It is faster to
    count many values at a time."""
    histogram: LogHistogram | None = None
    precise: bool = False
    """Keep all values, regardless of their number."""

    @classmethod
    def of(cls, grouped: GroupedValues) -> Distribution:
        """Return the distribution of one tensor, in bounded memory."""
        extremes = grouped.once(Extremes.of)
        if _is_few(grouped.values.numel(), len(grouped.values)):
            return cls(extremes, (grouped.values.clone(),))
        return cls(extremes, (), LogHistogram.of(grouped.values, grouped.nans))

    @classmethod
    def all_of(cls, grouped: GroupedValues) -> Distribution:
        """Return the distribution of one tensor that always keeps all values."""
        return cls(grouped.once(Extremes.of), (grouped.values.clone(),), precise=True)

    def merged(self, other: Distribution) -> Distribution:
        extremes = self.extremes.merged(other.extremes)
        parts = _joined((*self.parts, *other.parts))
        histogram = _merged(self.histogram, other.histogram)
        both = Distribution(extremes, parts, histogram, self.precise and other.precise)
        num_values = sum(part.numel() for part in parts)
        return both if both.precise or _is_few(num_values, len(extremes.low)) else both.counted()

    @property
    def values(self) -> Tensor:
        """The values that are not in the histogram, in shape [groups, values per group]."""
        if not self.parts:
            return self.extremes.low.new_empty(len(self.extremes.low), 0)
        return torch.cat(self.parts, dim=1)

    def counted(self) -> Distribution:
        """Return the same distribution with all values in the histogram."""
        if not self.parts and self.histogram is not None:
            return self
        values = self.values
        histogram = _merged(self.histogram, LogHistogram.of(values, values.isnan())) if self.parts else None
        nothing = torch.zeros(0, dtype=torch.int64, device=values.device)
        return Distribution(self.extremes, (), histogram or LogHistogram(nothing, nothing))

    def relative_error(self) -> Tensor:
        """Return the largest relative error of a value per group: 0 while all values are kept."""
        return torch.full_like(self.extremes.low, 0.0 if self.histogram is None else RELATIVE_ERROR)

    def num_zeros(self, count: Tensor) -> Tensor:
        """Return the number of zeros per group."""
        if self.histogram is None:
            return self._tensor((np.abs(self._ordered) < ZERO).sum(1))
        return _histogram_of(self).num_zeros(len(count))

    def quantiles(self, shares: tuple[float, ...], count: Tensor) -> Tensor:
        """Return the quantiles, interpolated linearly between neighbours, in shape [groups, shares]."""
        if self.histogram is None:
            return self._tensor(_exact_quantiles(self._ordered, shares, count.cpu().numpy()))
        last = (count - 1).clamp(min=0).unsqueeze(1)
        position = last * torch.tensor(shares, dtype=torch.float64, device=count.device)
        neighbours = torch.stack([position.floor(), position.ceil()]).long()
        below, above = (self._roughly_ranked(rank, last, count) for rank in neighbours)
        weight = position - neighbours[0]
        between = below * (1 - weight) + above * weight
        found = torch.where((weight == 0) | (below == above), below, between)
        return found.masked_fill((count == 0).unsqueeze(1), nan)

    @cached_property
    def _ordered(self) -> Array:
        """The values of each group in ascending order, in double precision; NaNs come last."""
        # numpy sorts about ten times as fast as torch, and is faster on the few values of a small tensor.
        return np.sort(self.values.double().cpu().numpy(), axis=1)

    def _tensor(self, array: Array) -> Tensor:
        return torch.from_numpy(array).to(self.extremes.low.device)

    def _roughly_ranked(self, rank: Tensor, last: Tensor, count: Tensor) -> Tensor:
        low, high = self.extremes.low.unsqueeze(1), self.extremes.high.unsqueeze(1)
        value = _histogram_of(self).ranked(rank, count).clamp(low, high)
        value = torch.where(rank == last, high, value)
        return torch.where(rank == 0, low, value)

    def bars(self, num_bins: int, count: Tensor) -> tuple[Tensor, Tensor]:
        """Return edges [groups, bins + 1] of even bins over the finite values, and counts [groups, bins].

        A bin includes its lower edge; the last one includes its upper edge as well. Infinities are in no bin.
        """
        low, high = self._finite_extremes()
        even = _even_edges(low.cpu().numpy(), high.cpu().numpy(), num_bins)
        edges = self._tensor(even)
        if self.histogram is None:
            return edges, self._tensor(_counts_between(self._ordered, even))
        histogram = _histogram_of(self)
        below = histogram.below(edges.nan_to_num(0.0), low, high)
        num_finite = count - histogram.num_infinite(len(count))
        # The first and the last count are exact, so all counts add up to the number of finite values.
        cumulated = torch.cat([torch.zeros_like(below[:, :1]), below[:, 1:-1], num_finite.unsqueeze(1)], dim=1)
        return edges, cumulated.round().long().diff(dim=1)

    def magnitudes(self) -> tuple[float, LogHistogram]:
        """Return the largest finite magnitude of all groups, and a histogram of all finite magnitudes."""
        return Extremes(*self._finite_extremes()).largest_magnitude(), _histogram_of(self).magnitudes()

    def _finite_extremes(self) -> tuple[Tensor, Tensor]:
        """Return the extremes of the finite values; exact, unless there are infinities and a histogram."""
        low, high = self.extremes.low, self.extremes.high
        if isfinite((high - low).sum().item()):
            return low, high
        if self.histogram is None:
            values = self.values.double()
            finite = values.isfinite()
            return values.masked_fill(~finite, torch.inf).amin(1), values.masked_fill(~finite, -torch.inf).amax(1)
        first, last = _histogram_of(self).finite_ends(len(low))
        return torch.where(low.isfinite(), low, first), torch.where(high.isfinite(), high, last)

    def check(self, count: Tensor) -> None:
        self.extremes.check(count)
        found = torch.zeros_like(count)
        for part in self.parts:
            check_tensor(part, None, len(count), None)
            found += (~part.isnan()).sum(1)
        if self.histogram is not None:
            self.histogram.check(len(count))
            found += self.histogram.num_values(len(count))
        if not found.equal(count):
            raise ValueError("the counts are inconsistent")


def _histogram_of(distribution: Distribution) -> LogHistogram:
    """Return the histogram of all values."""
    histogram = distribution.counted().histogram
    assert histogram is not None, "`counted` puts all values into a histogram"
    return histogram


def _merged(first: LogHistogram | None, second: LogHistogram | None) -> LogHistogram | None:
    return first.merged(second) if first is not None and second is not None else first or second


def _joined(parts: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """Return the same values in few tensors, longest first; a value is copied each time the total doubles."""
    parts = tuple(sorted(parts, key=lambda part: -part.shape[1]))
    while len(parts) > 1 and parts[-2].shape[1] <= 2 * parts[-1].shape[1]:
        parts = (*parts[:-2], torch.cat(parts[-2:], dim=1))
    return parts


def _is_few(num_values: int, groups: int) -> bool:
    return num_values <= max(MAX_EXACT_VALUES, MAX_EXACT_VALUES_PER_GROUP * groups)


def _exact_quantiles(ordered: Array, shares: tuple[float, ...], count: Array) -> Array:
    """Return the quantiles of sorted values, in shape [groups, shares]."""
    position = np.maximum(count - 1, 0)[:, None] * np.array(shares)
    ranks = np.floor(position).astype(np.int64), np.ceil(position).astype(np.int64)
    rows = np.arange(len(ordered))[:, None]
    below, above = (ordered[rows, rank] for rank in ranks)
    weight = position - ranks[0]
    with np.errstate(invalid="ignore"):  # infinity times 0
        between = below * (1 - weight) + above * weight
    found: Array = np.where((weight == 0) | (below == above), below, between)
    found[count == 0] = nan
    return found


_LARGEST = sys.float_info.max


@lru_cache(maxsize=8)
def _steps(num_bins: int) -> tuple[Array, Array]:
    """Return even steps from 0 to 1, and from 1 to 0."""
    steps: Array = torch.linspace(0.0, 1.0, num_bins + 1, dtype=torch.float64).numpy()
    return steps, 1 - steps


def _even_edges(low: Array, high: Array, num_bins: int) -> Array:
    """Return edges [groups, bins + 1], NaN if `low` is above `high`.

    Around a single value v they reach max(0.5, |v| / 2) to both sides.
    """
    rising, falling = _steps(num_bins)
    reach = np.where(low == high, np.maximum(np.abs(low), 1.0) * 0.5, 0.0)
    with np.errstate(over="ignore", invalid="ignore"):
        first, last = np.maximum(low - reach, -_LARGEST)[:, None], np.minimum(high + reach, _LARGEST)[:, None]
        # Not `first + rising * (last - first)`: the difference may overflow.
        edges: Array = first * falling + last * rising
    edges[:, :1], edges[:, -1:] = first, last
    edges[~(low <= high)] = nan
    return edges


def _counts_between(ordered: Array, edges: Array) -> Array:
    """Return the number of finite values per group and bin; `ordered` is sorted."""
    counts = np.zeros((len(edges), edges.shape[1] - 1), dtype=np.int64)
    for values, ends, count in zip(ordered, edges, counts, strict=True):
        if not np.isnan(ends[0]):
            positions = np.searchsorted(values, ends)  # NaNs are above all edges
            positions[-1] = np.searchsorted(values, ends[-1], side="right")
            count[:] = np.diff(positions)
    return counts
