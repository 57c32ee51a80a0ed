"""How well values fit their number format, summed over batches."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from chop.formats import Format
from chop.formats.parts.describe import is_enumerable, values_of
from chop.statistics.deviation import Deviation

MAX_SAMPLE_SIZE = 2**16
"""The number of values that are kept to try out other formats; if there are more, a random choice."""
CHUNK_SIZE = 2**20
"""The number of values that are converted to double precision at a time."""
TOLERANCE = 1e-6
"""A value saturates if it exceeds the limit by more than this share, which allows for the rounding of a scale."""
_NOTHING = torch.empty(0)

Values = np.ndarray[Any, np.dtype[np.float64]]


class Limits(NamedTuple):
    """The smallest and the largest number that a format can represent, for each value or one for all values."""

    low: Tensor
    high: Tensor
    follow_data: bool
    """Whether the limits depend on a scale that is computed from the data."""


class Losses(NamedTuple):
    """How many of some values are lost when they are rounded."""

    num_nonzero: int
    num_to_zero: int
    """Nonzero values that become 0."""
    num_saturated: int
    """Values outside the range of the format."""
    largest_relative_to_limit: float
    """0.25: a quarter of the range is used; 2: the largest value is twice the limit."""

    @classmethod
    def of(cls, before: Values, after: Values, limits: Values) -> Losses:
        """Compare finite values with their rounded values and the limits of the format on their side of 0."""
        nonzero = before != 0
        num_nonzero = int(np.count_nonzero(nonzero))
        with np.errstate(divide="ignore", invalid="ignore"):
            # A limit of 0, as for negative numbers in an unsigned format, gives an infinite ratio.
            relative_to_limit = np.where(nonzero, np.abs(before) / np.abs(limits), 0.0)
        return cls(
            num_nonzero,
            int(np.count_nonzero(nonzero & (after == 0))),
            int(np.count_nonzero(relative_to_limit > 1 + TOLERANCE)),
            float(relative_to_limit.max()),
        )


@dataclass(frozen=True)
class FormatFit:
    """How well a tensor's values fit their format. Shares are from 0 to 1; None means not applicable."""

    min: float | None
    max: float | None
    num_values: int
    num_not_finite: int
    """The number of NaNs and infinities, which are left out of all other numbers."""
    holds: tuple[float, float] | None
    """The range of the format; None without a format, and if the range depends on the data."""
    saturated: float | None
    """The share of the values outside the range of the format."""
    to_zero: float | None
    """The share of the nonzero values that become 0."""
    unused_bits: int | None
    """The number of top bits that no value needs; only for formats with evenly spaced values."""
    sqnr_db: float | None


class FormatFitMeter:
    """A meter of how well values fit a format, batch by batch; keeps a random sample of them if `keeps_sample`."""

    def __init__(
        self, number_format: Format | None, scale: Tensor | None = None, *, keeps_sample: bool = True
    ) -> None:
        self.format, self.scale, self.keeps_sample = number_format, scale, keeps_sample
        self.min, self.max = math.inf, -math.inf
        self.num_values = self.num_not_finite = 0
        self.num_nonzero = self.num_to_zero = self.num_saturated = 0
        self.largest_relative_to_limit = 0.0  # 0.25: a quarter of the range is used, 2: twice the largest number
        self.deviation = Deviation()
        self.limits: Limits | None = None
        self.sample = _NOTHING.double() if keeps_sample else _NOTHING
        self._keys = _NOTHING  # one random number per value of the sample; the smallest ones are kept
        self._random = torch.Generator().manual_seed(0) if keeps_sample else None

    def add(self, values: Tensor) -> None:
        """Add values, and compare them with their rounded values if there is a format."""
        if values.numel() == 0:
            return
        tensors = [values]
        if self.format is not None:
            limits = limits_of(self.format, values, self.scale)
            self.limits = limits if limits.low.numel() == 1 else _outermost(limits)  # few bytes to keep
            tensors += [self.format(values, self.scale), torch.where(values < 0, limits.low, limits.high)]
        for parts in zip(*(_chunks(tensor) for tensor in tensors), strict=True):
            x, *rounded_and_limit = (part.double() for part in parts)
            ends = torch.stack(x.aminmax()).tolist()
            if not all(map(math.isfinite, ends)):
                finite = x.isfinite()
                self.num_not_finite += int((~finite).sum())
                x, *rounded_and_limit = (part[finite] for part in (x, *rounded_and_limit))
                if not x.numel():
                    continue
                ends = torch.stack(x.aminmax()).tolist()
            self._count(x, *ends)
            if rounded_and_limit:
                self._compare(x, *rounded_and_limit)

    @property
    def largest(self) -> float:
        """The largest magnitude."""
        return max(abs(self.min), abs(self.max)) if self.num_values else 0.0

    def read(self) -> FormatFit:
        """Return the numbers of all values added so far."""
        has_format = self.format is not None and self.num_values > 0
        fixed = has_format and self.limits is not None and not self.limits.follow_data
        return FormatFit(
            min=self.min if self.num_values else None,
            max=self.max if self.num_values else None,
            num_values=self.num_values,
            num_not_finite=self.num_not_finite,
            holds=(self.limits.low.min().item(), self.limits.high.max().item()) if fixed and self.limits else None,
            saturated=self.num_saturated / self.num_values if has_format else None,
            to_zero=self.num_to_zero / max(1, self.num_nonzero) if has_format else None,
            unused_bits=self._unused_bits() if has_format else None,
            sqnr_db=self.deviation.sqnr_db if has_format and self.largest > 0 else None,
        )

    def _count(self, x: Tensor, low: float, high: float) -> None:
        self.num_values += x.numel()
        self.min, self.max = min(self.min, low), max(self.max, high)
        if self.keeps_sample:
            self._keep(x)

    def _compare(self, x: Tensor, rounded: Tensor, limit: Tensor) -> None:
        self.deviation.add_tensor(x, rounded)
        before, after, limits = (each.detach().cpu().numpy() for each in (x, rounded, limit))
        found = Losses.of(before, after, limits)
        self.num_nonzero += found.num_nonzero
        self.num_to_zero += found.num_to_zero
        self.num_saturated += found.num_saturated
        self.largest_relative_to_limit = max(self.largest_relative_to_limit, found.largest_relative_to_limit)

    def _unused_bits(self) -> int | None:
        """Return the number of unused top bits: 2 if the largest magnitude is a quarter of the limit."""
        assert self.format is not None, "only called with a format"
        if not has_even_steps(self.format) or self.largest_relative_to_limit == 0:
            return None
        return math.floor(-math.log2(min(self.largest_relative_to_limit, 1.0)))

    def _keep(self, x: Tensor) -> None:
        self.sample = torch.cat([self.sample, x.cpu()])
        self._keys = torch.cat([self._keys, torch.rand(x.numel(), generator=self._random)])
        if len(self.sample) > MAX_SAMPLE_SIZE:
            self._keys, kept = self._keys.topk(MAX_SAMPLE_SIZE, largest=False)
            self.sample = self.sample[kept]


def _chunks(tensor: Tensor) -> tuple[Tensor, ...]:
    values = tensor.flatten()
    return (values,) if values.numel() <= CHUNK_SIZE else values.split(CHUNK_SIZE)


def _outermost(limits: Limits) -> Limits:
    return Limits(limits.low.amin(), limits.high.amax(), limits.follow_data)


def limits_of(number_format: Format, values: Tensor, scale: Tensor | None) -> Limits:
    """Return the range of a format for each of `values`, given the scale that the operand may have."""
    if scale is None and is_enumerable(number_format):
        try:
            fixed = _fixed_limits(number_format, values.ndim, values.dtype, values.device)
        except ValueError:  # a user's format need not define its codes
            pass
        else:
            return _limits_from_data(number_format, values) if fixed is None else fixed
    far = torch.finfo(values.dtype).max
    least, largest = number_format(values.new_tensor([-far, far]), scale)
    return Limits(least, largest, follow_data=False)


@lru_cache(maxsize=256)
def _fixed_limits(number_format: Format, ndim: int, dtype: torch.dtype, device: torch.device) -> Limits | None:
    """Return the range of a format; None if it depends on the data."""
    low, high = _outermost_codes(number_format)
    if number_format.encode(torch.zeros([1] * ndim, dtype=dtype))[1]:
        return None
    least, largest = (number_format.decode(torch.tensor([end])).to(device) for end in (low, high))
    return Limits(least, largest, follow_data=False)


def _limits_from_data(number_format: Format, values: Tensor) -> Limits:
    codes, scales = number_format.encode(torch.where(values.isnan(), 0.0, values))  # NaN need not have a code
    ends = (torch.full_like(codes, end) for end in _outermost_codes(number_format))
    least, largest = (number_format.decode(each, scales) for each in ends)
    return Limits(least, largest, follow_data=True)


@lru_cache(maxsize=256)
def _outermost_codes(number_format: Format) -> tuple[int, int]:
    """Return the codes of the smallest and the largest number of a format."""
    codes = number_format.all_codes()
    values = number_format.decode(codes)
    codes, values = codes[values.isfinite()], values[values.isfinite()]
    return int(codes[values.argmin()]), int(codes[values.argmax()])


@lru_cache(maxsize=256)
def has_even_steps(number_format: Format) -> bool:
    """Return whether the values of a format, for a fixed scale, are evenly spaced."""
    if not is_enumerable(number_format):
        return not number_format.floating_point
    try:
        steps = values_of(number_format).double().diff()
    except ValueError:  # a user's format need not define its codes
        return False
    return bool((steps == steps[:1]).all())
