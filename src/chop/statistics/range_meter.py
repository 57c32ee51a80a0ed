"""A tensor's values against what its format can hold, added up over batches."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import torch
from torch import Tensor

from chop.formats import Format
from chop.formats.describe import is_enumerable, values_of
from chop.statistics.deviation import Deviation

SAMPLE = 2**16
"""Values that are kept for trying out other formats; of more than these, a random choice."""
CHUNK = 2**20
"""Values that are looked at together: copies in double precision are made of so many only."""
TOLERANCE = 1e-6
"""What a value may be beyond the limit by the rounding of a scale, relative to it."""


class Limits(NamedTuple):
    """The least and the largest number that each value could become; one for all where they are the same."""

    low: Tensor
    high: Tensor
    follow_data: bool
    """Whether a scale that is found from the data decides them."""


@dataclass(frozen=True)
class Measured:
    """What is known of a tensor's values; shares are from 0 to 1. None: there is nothing that it could be."""

    min: float | None
    max: float | None
    num_values: int
    num_not_finite: int
    """NaNs and infinities, which are left out of all other numbers."""
    holds: tuple[float, float] | None
    """What the format can hold; None without a format, and where it follows the data."""
    saturated: float | None
    """Share of the values that lie outside of what the format can hold."""
    to_zero: float | None
    """Share of the values other than 0 that become 0."""
    unused_bits: int | None
    """Top bits that no value needs, of formats whose values are all one step apart."""
    sqnr_db: float | None


class Meter:
    """Sees values and what became of them, batch by batch; without a sample, it counts only."""

    def __init__(
        self, number_format: Format | None, scale: Tensor | None = None, *, keeps_sample: bool = True
    ) -> None:
        self.format, self.scale, self.keeps_sample = number_format, scale, keeps_sample
        self.min, self.max = math.inf, -math.inf
        self.num_values = self.num_not_finite = 0
        self.num_nonzero = self.num_to_zero = self.num_saturated = 0
        self.fullness = 0.0  # the largest magnitude as a share of the limit
        self.deviation = Deviation()
        self.limits: Limits | None = None
        self.sample = torch.empty(0, dtype=torch.float64)
        self._keys = torch.empty(0)  # random: the values with the smallest ones are kept
        self._random = torch.Generator().manual_seed(0)

    def add(self, values: Tensor) -> None:
        """Count `values`, and what the format makes of them."""
        shown = [values]
        if self.format is not None:
            self.limits = limits_of(self.format, values, self.scale)
            limit = torch.where(values < 0, self.limits.low, self.limits.high)
            shown += [self.format(values, self.scale), limit]
        for parts in zip(*(tensor.flatten().split(CHUNK) for tensor in shown), strict=True):
            finite = parts[0].isfinite()
            self.num_not_finite += int((~finite).sum())
            x, *became_and_limit = (part[finite].double() for part in parts)
            if x.numel():
                self._count(x)
                if became_and_limit:
                    self._compare(x, *became_and_limit)

    @property
    def largest(self) -> float:
        return max(abs(self.min), abs(self.max)) if self.num_values else 0.0

    def read(self) -> Measured:
        has_format = self.format is not None and self.num_values > 0
        fixed = has_format and self.limits is not None and not self.limits.follow_data
        return Measured(
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

    def _count(self, x: Tensor) -> None:
        self.num_values += x.numel()
        self.min, self.max = min(self.min, x.min().item()), max(self.max, x.max().item())
        if self.keeps_sample:
            self._keep(x)

    def _compare(self, x: Tensor, became: Tensor, limit: Tensor) -> None:
        nonzero = x != 0
        self.num_nonzero += int(nonzero.sum())
        self.num_to_zero += int((nonzero & (became == 0)).sum())
        self.deviation.add(x, became)
        # Where only 0 can be held, as of negative numbers without a sign, all else is infinitely beyond.
        fullness = torch.where(nonzero, x.abs() / limit.abs(), 0.0)
        self.num_saturated += int((fullness > 1 + TOLERANCE).sum())
        self.fullness = max(self.fullness, fullness.max().item())

    def _unused_bits(self) -> int | None:
        assert self.format is not None, "asked for with a format only"
        if not has_even_steps(self.format) or self.fullness == 0:
            return None
        return math.floor(-math.log2(min(self.fullness, 1.0)))

    def _keep(self, x: Tensor) -> None:
        self.sample = torch.cat([self.sample, x])
        self._keys = torch.cat([self._keys, torch.rand(x.numel(), generator=self._random)])
        if len(self.sample) > SAMPLE:
            self._keys, kept = self._keys.topk(SAMPLE, largest=False)
            self.sample = self.sample[kept]


def limits_of(number_format: Format, values: Tensor, scale: Tensor | None) -> Limits:
    """What a format can hold in the place of each of `values`, with the scale that an operand may have."""
    if scale is None and is_enumerable(number_format):
        try:
            follow_data = bool(number_format.encode(values.new_zeros([1] * values.ndim))[1])
            low, high = _outermost_codes(number_format)
        except ValueError:  # a user's format need not say how it is stored
            pass
        else:
            one = values.new_zeros(1, dtype=torch.long)
            codes, scales = number_format.encode(values) if follow_data else (one, ())
            least, largest = (number_format.decode(torch.full_like(codes, end), scales) for end in (low, high))
            return Limits(least, largest, follow_data)
    far = torch.finfo(values.dtype).max
    least, largest = number_format(values.new_tensor([-far, far]), scale)
    return Limits(least, largest, follow_data=False)


@lru_cache(maxsize=256)
def _outermost_codes(number_format: Format) -> tuple[int, int]:
    """The codes of the least and of the largest number of a format."""
    codes = number_format.all_codes()
    values = number_format.decode(codes)
    codes, values = codes[values.isfinite()], values[values.isfinite()]
    return int(codes[values.argmin()]), int(codes[values.argmax()])


@lru_cache(maxsize=256)
def has_even_steps(number_format: Format) -> bool:
    """Whether neighbouring values of a format, with one scale, are all the same step apart."""
    if not is_enumerable(number_format):
        return not number_format.floating_point
    try:
        steps = values_of(number_format).double().diff()
    except ValueError:  # a user's format need not say how it is stored
        return False
    return bool((steps == steps[:1]).all())
