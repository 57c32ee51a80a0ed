"""The numbers that a format can represent in the place of given values."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from chop.formats import Format
from chop.formats.describe import describe, is_enumerable
from chop.statistics.range_meter import limits_of

MOST_DRAWN = 256


@dataclass(frozen=True)
class Representable:
    """Limits, steps and, if they can be listed, all numbers of a format; with scales, those of the largest."""

    low: float
    high: float
    step: float | None
    """The smallest positive number."""
    num_values: int | None
    """None, and no step: the format does not say how it is stored."""
    num_scales: int
    """How many scales, of blocks or channels, the data lead to."""
    values: Tensor | None = None

    def between(self, low: float, high: float) -> tuple[list[float], int]:
        """The numbers to draw over data from `low` to `high`, and of how many each is one."""
        if self.values is None:
            return [], 1
        # What lies a little outside is drawn too, so that limits that are near can be seen.
        room = (high - low or 1.0) * 1.5
        inside = self.values[(self.values >= low - room) & (self.values <= high + room)]
        stride = -(-len(inside) // MOST_DRAWN) or 1
        return inside[::stride].tolist(), stride


def representable(number_format: Format, values: Tensor, scale: Tensor | None) -> Representable:
    """What a tensor's format can represent; `scale` is the one that its operand may have."""
    listed = _listed(number_format, values, scale)
    if listed is None:
        limits = limits_of(number_format, values.reshape(-1)[:1], scale)
        low, high = limits.low.min().item(), limits.high.max().item()
        if is_enumerable(number_format):
            return Representable(low, high, None, None, num_scales=1)
        found = describe(number_format)
        return Representable(low, high, found.smallest, found.num_values, num_scales=1)
    numbers, num_scales = listed
    step = numbers[numbers > 0][:1].sum().item()  # 0 where none is positive
    return Representable(numbers[0].item(), numbers[-1].item(), step, len(numbers), num_scales, numbers)


def _listed(number_format: Format, values: Tensor, scale: Tensor | None) -> tuple[Tensor, int] | None:
    """All numbers with the largest scale, sorted, and how many scales there are; None for too many numbers."""
    if not is_enumerable(number_format):
        return None
    try:
        scales = _scales(number_format, values) if scale is None else (scale,)
        largest = tuple(each.amax() for each in scales)
        numbers: Tensor = number_format.decode(number_format.all_codes(), largest)
    except ValueError:  # a user's format need not say how it is stored
        return None
    finite = numbers[numbers.isfinite()].double().unique()
    return finite, max((torch.as_tensor(each).unique().numel() for each in scales), default=1)


def _scales(number_format: Format, values: Tensor) -> tuple[Tensor, ...]:
    """Those that the values lead to; a format that has none for one value has none for all."""
    if not number_format.encode(values.reshape(-1)[:1])[1]:
        return ()
    return number_format.encode(values)[1]
