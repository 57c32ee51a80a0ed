"""Weights that are rounded with scales that were fixed before, and the choice of these scales."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from chop.formats import Format

_FACTORS = (1.0, *(0.35 + 0.05 * i for i in range(13)), 1.05, 1.1, 1.2, 1.34)
"""By what the largest magnitude of a group is multiplied. Above 1, a power-of-two scale may become larger."""


@dataclass(frozen=True)
class FixedScales:
    """How elements of a weight are rounded, independently of each other. All tensors have the weight's shape."""

    number_format: Format
    scale: Tensor | None
    """The learned or calibrated scale of the layer."""
    scales: Tensor | None = None
    """The scale of each element, for formats that compute scales from data."""
    held: Tensor | None = None
    """Which elements determine the scale of their group, and so may not change."""
    reference: Tensor | None = None
    """The values that these elements hold."""
    groups: Tensor | None = None
    """The number of the group of each element."""

    @classmethod
    def of(
        cls, number_format: Format, scale: Tensor | None, weight: Tensor, importance: Tensor | None = None
    ) -> FixedScales:
        """Return the scales of a weight; with an `importance` per element, those with the least squared error."""
        groups = None if scale is not None else number_format.scale_groups(weight)
        if groups is None:
            return cls(number_format, scale)
        reference = weight if importance is None else best_clipped(number_format, weight, importance, groups)
        held = _first_of_each(weight.abs() == _largest(weight, groups), groups)
        return cls(number_format, None, number_format.element_scales(reference), held, reference, groups)

    def mapped(self, change: Callable[[Tensor], Tensor]) -> FixedScales:
        """Return the same scales in another shape."""
        tensors = (self.scales, self.held, self.reference, self.groups)
        parts = (None if each is None else change(each) for each in tensors)
        return FixedScales(self.number_format, self.scale, *parts)

    def multiplied(self, factor: Tensor) -> FixedScales:
        """Return the scales of the values that determine them, multiplied by a factor."""
        assert self.reference is not None, "there are scales from data"
        reference = self.reference * factor
        return replace(self, scales=self.number_format.element_scales(reference), reference=reference)

    def rounded(self, x: Tensor, scales: Tensor | None) -> Tensor:
        """Round values that have these scales."""
        if scales is not None:
            return self.number_format.quantize_with(x, scales)
        return self.number_format(x, self.scale)


def can_fix_scales(number_format: Format, scale: Tensor | None, weight: Tensor) -> bool:
    """Whether the elements of a weight can be rounded one by one."""
    if scale is not None:
        return scale.numel() == 1
    return not number_format.values_depend_on_data or number_format.scale_groups(weight) is not None


def best_clipped(number_format: Format, weight: Tensor, importance: Tensor, groups: Tensor) -> Tensor:
    """Return the weight with the largest magnitude of each group changed for the least rounding error."""
    largest = _largest(weight, groups)
    best_error: Tensor | None = None
    best = torch.ones_like(weight)
    first = _first_of_each(weight.abs() == largest, groups)
    for factor in _FACTORS:
        clipped = _clipped(weight, factor * largest, first)
        error = (number_format.quantize(clipped) - weight).square().mul_(importance)
        total = torch.zeros(int(groups.max()) + 1, dtype=torch.float64, device=weight.device)
        total.index_add_(0, groups.flatten(), error.flatten().double())
        if best_error is None:
            best_error = total
            continue
        better = total < best_error
        best_error = torch.where(better, total, best_error)
        best = torch.where(better[groups], factor, best)
    return _clipped(weight, best * largest, first)


def _clipped(weight: Tensor, limit: Tensor, first: Tensor) -> Tensor:
    """Return the weight with magnitudes up to `limit`, which the first of each group has in any case."""
    clipped = torch.minimum(torch.maximum(weight, -limit), limit)
    return torch.where(first, limit.copysign(weight), clipped)


def _largest(weight: Tensor, groups: Tensor) -> Tensor:
    """Return for each element the largest magnitude in its group."""
    found = torch.zeros(int(groups.max()) + 1, dtype=weight.dtype, device=weight.device)
    found.scatter_reduce_(0, groups.flatten(), weight.abs().flatten(), "amax")
    return found[groups]


def _first_of_each(mask: Tensor, groups: Tensor) -> Tensor:
    """Return `mask` with only its first element in each group."""
    places = torch.arange(mask.numel(), device=mask.device).reshape(mask.shape)
    chosen = torch.where(mask, places, mask.numel())
    first = torch.full((int(groups.max()) + 1,), mask.numel(), device=mask.device)
    first.scatter_reduce_(0, groups.flatten(), chosen.flatten(), "amin")
    return places == first[groups]
