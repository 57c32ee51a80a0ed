"""The numbers that a format can represent for the values of a given tensor."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

from chop.formats import Format
from chop.formats.parts.describe import describe, is_enumerable
from chop.statistics.format_fit import limits_of

MAX_VALUES_DRAWN = 256
MARGIN = 1.5
"""How far outside of the data, relative to its range, values are drawn, so that nearby limits are visible."""


@dataclass(frozen=True)
class RepresentableValues:
    """The limits, the step and, if they can be listed, all values of a format.

    If blocks or channels have their own scales, these are the values at the largest scale.
    """

    low: float
    high: float
    step: float | None
    """The smallest positive value; None: the format does not define how it is stored."""
    num_values: int | None
    """None: the format does not define how it is stored."""
    num_scales: int
    """How many different scales the data lead to."""
    values: Tensor | None = None
    """In ascending order, in double precision."""

    def between(self, low: float, high: float) -> tuple[list[float], int]:
        """Return the values to draw over data from `low` to `high`, and the stride: 4 means every fourth value."""
        if self.values is None:
            return [], 1
        margin = (high - low or 1.0) * MARGIN
        values = self.values.numpy()
        first, last = values.searchsorted(low - margin), values.searchsorted(high + margin, side="right")
        inside = values[first:last]
        stride = -(-len(inside) // MAX_VALUES_DRAWN) or 1
        return inside[::stride].tolist(), stride


def representable_values(
    number_format: Format, chunks: Sequence[Tensor], scale: Tensor | None
) -> RepresentableValues:
    """Return what `number_format` can represent for a tensor; `scale` is a learned or calibrated scale.

    The tensor is given in chunks that have their own scales, so that those of a large tensor need little memory.
    """
    try:
        if scale is None and is_enumerable(number_format) and not _has_scales(number_format):
            return _values_without_scale(number_format)
        listed = _list_values(number_format, chunks, scale)
    except ValueError:  # a user's format need not define codes
        listed = None
    if listed is None:
        limits = limits_of(number_format, chunks[0].reshape(-1)[:1], scale)
        low, high = limits.low.min().item(), limits.high.max().item()
        if is_enumerable(number_format):
            return RepresentableValues(low, high, None, None, num_scales=1)
        description = describe(number_format)
        return RepresentableValues(low, high, description.smallest, description.num_values, num_scales=1)
    return _describe(*listed)


def _describe(values: Tensor, num_scales: int) -> RepresentableValues:
    step = values[values > 0][:1].sum().item()  # 0 if no value is positive
    return RepresentableValues(values[0].item(), values[-1].item(), step, len(values), num_scales, values)


def _list_values(
    number_format: Format, chunks: Sequence[Tensor], scale: Tensor | None
) -> tuple[Tensor, int] | None:
    """Return all values at the largest scale, sorted, and the number of scales; None if there are too many."""
    if not is_enumerable(number_format):
        return None
    scales = _scales(number_format, chunks) if scale is None else (scale.unique(),)
    values = _finite_values(number_format, tuple(each[-1] for each in scales))
    return values, max((each.numel() for each in scales), default=1)


def _finite_values(number_format: Format, scales: tuple[Tensor, ...]) -> Tensor:
    values: Tensor = number_format.decode(number_format.all_codes(), scales)
    finite: Tensor = values[values.isfinite()].double().unique()
    return finite


def _scales(number_format: Format, chunks: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """Return the different scales, in ascending order."""
    found: list[tuple[Tensor, ...]] = []
    for chunk in chunks:
        numbers = torch.where(chunk.isnan(), 0.0, chunk)  # NaN need not have a code
        found.append(tuple(torch.as_tensor(each).unique() for each in number_format.encode(numbers)[1]))
    return tuple(torch.cat(each).unique() for each in zip(*found, strict=True))


@lru_cache(maxsize=256)
def _has_scales(number_format: Format) -> bool:
    """Whether tensors have scales; a format without a scale for one value has none for any."""
    return bool(number_format.encode(torch.zeros(1))[1])


@lru_cache(maxsize=256)
def _values_without_scale(number_format: Format) -> RepresentableValues:
    return _describe(_finite_values(number_format, ()), num_scales=1)
