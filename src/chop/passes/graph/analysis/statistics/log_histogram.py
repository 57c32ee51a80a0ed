"""Counts of values by sign, exponent and top mantissa bits: quantiles of any amount of data in little memory."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

import torch
from torch import Tensor

MANTISSA_BITS = 6
RELATIVE_ERROR = 2.0 ** -(MANTISSA_BITS + 1)
"""A value is known by the middle of its bin, which is at most this far from it, relative to it: 0.8 %."""

_SHIFT = 52 - MANTISSA_BITS
_HALF = 2048 << MANTISSA_BITS  # bins of one sign: all exponents of a double
_BINS = 2 * _HALF
_ALL_BUT_SIGN = 0x7FFFFFFFFFFFFFFF
_DENSE_LIMIT = 1 << 22
"""Up to so many bins, counting into all of them is faster than sorting the values."""


@dataclass(frozen=True)
class LogHistogram:
    """The bins that hold values, in order of group and value, and how many each holds."""

    keys: Tensor
    """group x _BINS + bin"""
    counts: Tensor

    @classmethod
    def of(cls, values: Tensor, nans: Tensor | None) -> LogHistogram:
        """From [groups, values of each]; those where `nans` is true are left out."""
        groups = torch.arange(len(values), device=values.device).unsqueeze(1)
        keys = _bins(values.double()).add_(groups * _BINS)
        found = keys.reshape(-1) if nans is None else keys[~nans]
        if len(values) * _BINS > _DENSE_LIMIT:
            return cls(*torch.unique(found, return_counts=True))
        counts = torch.bincount(found)
        occupied = counts.nonzero().squeeze(1)
        return cls(occupied, counts[occupied])

    def merged(self, other: LogHistogram) -> LogHistogram:
        keys, places = torch.unique(torch.cat([self.keys, other.keys]), return_inverse=True)
        counts = torch.cat([self.counts, other.counts])
        return LogHistogram(keys, torch.zeros_like(keys).index_add_(0, places, counts))

    @property
    def values(self) -> Tensor:
        """The middle of each bin, for `counts`; of a histogram of one group."""
        return _middles(self.keys % _BINS)

    def ranked(self, rank: Tensor, count: Tensor) -> Tensor:
        """Of each group the value that `rank` others are below; `count` is how many values each group has."""
        if len(self.keys) == 0:
            return torch.zeros_like(count, dtype=torch.float64)
        before = count.cumsum(0) - count
        places = torch.searchsorted(self.counts.cumsum(0), before + rank, right=True)
        return _middles(self.keys[places.clamp(max=len(self.keys) - 1)] % _BINS)


def _bins(values: Tensor) -> Tensor:
    """The bin of each value, in the order of the values: those of doubles' bits, turned round for negative ones.

    One buffer for all steps: fresh ones would take most of the time.
    """
    bits = values.view(torch.int64)
    ordered = (bits >> 63).bitwise_and_(_ALL_BUT_SIGN).bitwise_xor_(bits)
    return ordered.bitwise_right_shift_(_SHIFT).add_(_HALF)


def _middles(bins: Tensor) -> Tensor:
    """The middle of each bin; exactly 0 for the bins around it, and inf for those of infinities."""
    signed = bins - _HALF
    magnitude = torch.where(signed < 0, -1 - signed, signed)
    middle = ((magnitude << _SHIFT) + (1 << (_SHIFT - 1))).view(torch.float64)
    middle = middle.masked_fill(magnitude == 0, 0.0)
    middle = middle.masked_fill(magnitude == 2047 << MANTISSA_BITS, inf)
    return torch.where(signed < 0, -middle, middle)
