"""Counts of values by sign, exponent and top mantissa bits: quantiles of any number of values in bounded memory."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

import torch
from torch import Tensor

from chop.formats.kernels.row_statistics import code_counts
from chop.statistics.state import check_tensor

MANTISSA_BITS = 6
RELATIVE_ERROR = 2.0 ** -(MANTISSA_BITS + 1)
"""The largest relative difference between a value and the middle of its bin: 0.8 %."""

ZERO = 2.0**-1028
"""Smaller magnitudes are counted as 0; only float64 has them."""

_SHIFT = 52 - MANTISSA_BITS
"""The number of mantissa bits of a double that its code does not have."""
_NUM_CODES = 2048 << MANTISSA_BITS
"""The number of codes of magnitudes: one per exponent of a double and value of the top mantissa bits."""
_BINS = 2 * _NUM_CODES
"""The number of bins per group: codes of negative and of positive values."""
_INFINITE = 2047 << MANTISSA_BITS
"""The code of infinity."""
_DENSE_LIMIT = 1 << 22
"""Up to this number of bins, counting into all of them is faster than sorting the values."""

_NUM_CODES32 = 256 << MANTISSA_BITS
"""The number of codes of magnitudes in float32."""
_REBIAS = (1023 - 127) << MANTISSA_BITS
"""The difference between the codes of a number as a double and as a float32: their exponents have another bias."""
_INFINITE32 = 255 << MANTISSA_BITS
"""The code of infinity in float32."""
_MAGNITUDE_BITS32 = 0x7FFFFFFF
"""A mask of all bits of a float32 except its sign."""
_LARGEST_SUBNORMAL32 = 0x007FFFFF
"""The bits of the largest subnormal float32."""


@dataclass(frozen=True)
class LogHistogram:
    """The bins that hold values, in order of group and value, and the number of values in each.

    The code of a magnitude is the exponent and the top 6 mantissa bits of the double. 1.0 has exponent 1023 and
    mantissa 0: its code is 1023 x 64 = 65472, as for all magnitudes from 1 up to 1.0156. 1.5 has code 65472 + 32,
    and 2.0 has code 1024 x 64 = 65536. The code of a negative value is the negated code of its magnitude, -65472
    for -1.0. The bin of a value is its code plus `_NUM_CODES`, which is 131072: 196544 for 1.0, 65600 for -1.0, and
    131072 for 0 and -0.
    """

    keys: Tensor
    """`group * _BINS + bin` of each bin, in ascending order."""
    counts: Tensor
    """The number of values in each bin."""

    @classmethod
    def of(cls, values: Tensor, nans: Tensor | None) -> LogHistogram:
        """Count values of shape [groups, values per group], leaving out those where `nans` is true."""
        is_dense = nans is None and len(values) * 2 * _NUM_CODES32 <= _DENSE_LIMIT
        dense = code_counts(values) if is_dense else None
        if dense is not None:
            counted = _from_dense(dense.view(-1), _NUM_CODES32)
        elif values.dtype == torch.float64 or _any_subnormal(values.float()):
            return _count(_codes(values.double(), torch.int64, _SHIFT), nans, _NUM_CODES)
        else:
            counted = _count(_codes(values.float(), torch.int32, 23 - MANTISSA_BITS), nans, _NUM_CODES32)
        codes = counted.bin_codes
        magnitude = codes.abs()
        magnitude = torch.where(magnitude == _INFINITE32, _INFINITE, magnitude + _REBIAS * (magnitude > 0))
        return cls(counted.bin_groups * _BINS + _NUM_CODES + magnitude * codes.sign(), counted.counts)

    def merged(self, other: LogHistogram) -> LogHistogram:
        return _summed(torch.cat([self.keys, other.keys]), torch.cat([self.counts, other.counts]))

    @property
    def bin_groups(self) -> Tensor:
        """The group of each bin."""
        return self.keys // _BINS

    @property
    def bin_codes(self) -> Tensor:
        """The code of each bin, negative for negative values."""
        return self.keys % _BINS - _NUM_CODES

    @property
    def values(self) -> Tensor:
        """The middle of each bin, in the order of `counts`."""
        return _middles(self.bin_codes)

    def magnitudes(self) -> LogHistogram:
        """Return a histogram of the finite magnitudes of all groups together."""
        magnitude = self.bin_codes.abs()
        finite = magnitude < _INFINITE
        return _summed(magnitude[finite] + _NUM_CODES, self.counts[finite])

    def ranked(self, rank: Tensor, count: Tensor) -> Tensor:
        """Return the values at positions `rank` [groups, any] of each sorted group, which has `count` values."""
        if len(self.keys) == 0:
            return torch.zeros_like(rank, dtype=torch.float64)
        before = (count.cumsum(0) - count).unsqueeze(1)
        positions = torch.searchsorted(self.counts.cumsum(0), before + rank, right=True)
        return self.values[positions.clamp(max=len(self.keys) - 1)]

    def finite_ends(self, groups: int) -> tuple[Tensor, Tensor]:
        """Return the outer ends of each group's outermost finite bins; inf and -inf for a group without any."""
        codes = self.bin_codes
        finite = codes.abs() < _INFINITE
        group = self.bin_groups[finite]
        low, high = _ends(codes[finite])
        lows = torch.full((groups,), inf, dtype=torch.float64, device=self.keys.device)
        largest = torch.finfo(torch.float64).max
        lowest = lows.scatter_reduce(0, group, low.clamp(min=-largest), "amin")
        return lowest, (-lows).scatter_reduce(0, group, high.clamp(max=largest), "amax")

    def num_zeros(self, groups: int) -> Tensor:
        """Return the number of zeros per group."""
        return self._num_of(0, groups)

    def num_infinite(self, groups: int) -> Tensor:
        """Return the number of infinities per group."""
        return self._num_of(_INFINITE, groups)

    def _num_of(self, magnitude: int, groups: int) -> Tensor:
        """Return the number of values per group whose magnitude has a code."""
        found = self.bin_codes.abs() == magnitude
        counts = torch.zeros(groups, dtype=torch.int64, device=self.keys.device)
        return counts.index_add_(0, self.bin_groups[found], self.counts[found])

    def below(self, edges: Tensor, low: Tensor, high: Tensor) -> Tensor:
        """Return the number of finite values below each edge [groups, edges], spread evenly over their bins.

        `low` and `high` are the extremes of each group, which cut its outermost bins.
        """
        if len(self.keys) == 0:
            return torch.zeros_like(edges)
        groups = torch.arange(len(edges), device=edges.device).unsqueeze(1)
        codes = _signed_codes(edges)
        keys = codes + groups * _BINS + _NUM_CODES
        positions = torch.searchsorted(self.keys, keys.reshape(-1)).reshape(keys.shape)
        cumulated = torch.cat([self.counts.new_zeros(1), self.counts.cumsum(0)])
        firsts = torch.searchsorted(self.keys, groups * _BINS + _NUM_CODES - _INFINITE, right=True)
        complete = cumulated[positions] - cumulated[firsts]
        at = positions.clamp(max=len(self.keys) - 1)
        inside = (positions < len(self.keys)) & (self.keys[at] == keys)
        start, end = (ends.clamp(low.unsqueeze(1), high.unsqueeze(1)) for ends in _ends(codes))
        share = ((edges - start) / (end - start)).nan_to_num(0.0, posinf=1.0, neginf=0.0).clamp(0.0, 1.0)
        return complete + inside * share * self.counts[at]

    def check(self, groups: int) -> None:
        for tensor in (self.keys, self.counts):
            check_tensor(tensor, torch.int64, len(self.keys))
        ordered = bool((self.keys.diff() > 0).all()) and bool((self.counts > 0).all())
        if len(self.keys) and not (ordered and self.keys[0] >= 0 and self.keys[-1] < groups * _BINS):
            raise ValueError("a histogram has unordered or empty bins")
        if bool((self.bin_codes.abs() > _INFINITE).any()):
            raise ValueError("a histogram has bins that represent no number")

    def num_values(self, groups: int) -> Tensor:
        """Return the number of values per group."""
        counts = torch.zeros(groups, dtype=torch.int64, device=self.keys.device)
        return counts.index_add_(0, self.bin_groups, self.counts)


def _any_subnormal(values: Tensor) -> bool:
    """Return whether there are subnormal float32 numbers other than 0: their exponent bits are all zero."""
    # Subtracting 1 turns 0 into the largest integer, so the minimum is the smallest magnitude other than 0.
    magnitudes = values.view(torch.int32).bitwise_and(_MAGNITUDE_BITS32)
    return bool(magnitudes.sub_(1).bitwise_and_(_MAGNITUDE_BITS32).amin() < _LARGEST_SUBNORMAL32)


def _codes(values: Tensor, integer: torch.dtype, shift: int) -> Tensor:
    """Return sign, exponent and top mantissa bits of floating-point numbers; the sign is the top bit."""
    num_codes = _NUM_CODES32 if integer == torch.int32 else _NUM_CODES
    return (values.view(integer) >> shift).bitwise_and_(2 * num_codes - 1)


def _count(codes: Tensor, nans: Tensor | None, num_codes: int) -> LogHistogram:
    """Return how often each code occurs, as a histogram whose bins are the magnitudes of these codes."""
    groups = len(codes)
    if groups > 1:
        codes = codes.long() + torch.arange(groups, device=codes.device).unsqueeze(1) * (2 * num_codes)
    found = codes.reshape(-1) if nans is None else codes[~nans]
    if groups * 2 * num_codes > _DENSE_LIMIT:
        raw, counts = torch.unique(found.long(), return_counts=True)
        return _from_codes(raw, counts, num_codes)
    return _from_dense(torch.bincount(found), num_codes)


def _from_dense(dense: Tensor, num_codes: int) -> LogHistogram:
    """Return the histogram of the numbers of values for all codes."""
    raw = dense.nonzero().squeeze(1)
    return _from_codes(raw, dense[raw].long(), num_codes)


def _from_codes(raw: Tensor, counts: Tensor, num_codes: int) -> LogHistogram:
    """Return the histogram of the numbers of values for some codes."""
    magnitude = raw % num_codes
    signed = torch.where(raw % (2 * num_codes) >= num_codes, -magnitude, magnitude)
    return _summed(raw // (2 * num_codes) * _BINS + _NUM_CODES + signed, counts)


def _summed(keys: Tensor, counts: Tensor) -> LogHistogram:
    """Return a histogram with sorted, distinct keys."""
    ordered, positions = torch.unique(keys, return_inverse=True)
    return LogHistogram(ordered, torch.zeros_like(ordered).index_add_(0, positions, counts))


def _signed_codes(values: Tensor) -> Tensor:
    """Return the code of each value's magnitude, negated for a negative value."""
    bits = values.double().contiguous().view(torch.int64)
    magnitude = (bits & 0x7FFFFFFFFFFFFFFF) >> _SHIFT
    return torch.where(bits < 0, -magnitude, magnitude)


def _middles(codes: Tensor) -> Tensor:
    """Return the middle of each bin; exactly 0 for the bin of 0, and inf for the bins of infinities."""
    magnitude = codes.abs()
    middle = ((magnitude << _SHIFT) + (1 << (_SHIFT - 1))).view(torch.float64)
    middle = middle.masked_fill(magnitude == 0, 0.0)
    middle = middle.masked_fill(magnitude == _INFINITE, inf)
    return torch.where(codes < 0, -middle, middle)


def _ends(codes: Tensor) -> tuple[Tensor, Tensor]:
    """Return the lower and upper end of each bin; for the bins of 0 and of infinities, that value twice."""
    magnitude = codes.abs()
    inner = (magnitude << _SHIFT).view(torch.float64)
    outer = ((magnitude + (magnitude > 0)).clamp(max=_INFINITE) << _SHIFT).view(torch.float64)
    negative = codes < 0
    return torch.where(negative, -outer, inner), torch.where(negative, -inner, outer)
