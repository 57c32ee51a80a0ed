"""A tensor laid out for a reduction: one row per group of values that are reduced together."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, NamedTuple, TypeVar, cast

import torch
from torch import Tensor

from chop.formats.kernels.row_statistics import row_moments

T = TypeVar("T")


class Layout(NamedTuple):
    """Which dimensions of a tensor are reduced, and on which device."""

    dims: Literal["all"] | tuple[int, ...] | None
    keep: tuple[int, ...] | None
    device: str | None


@dataclass(frozen=True)
class GroupedValues:
    """The values of one tensor in shape [groups, values per group]; there is at least one value.

    A tensor of shape [32, 16, 8, 8] with `keep=(1,)` has one group per channel: shape [16, 2048].
    """

    values: Tensor
    kept_shape: torch.Size
    """The shape of the dimensions that are not reduced: its product is the number of groups."""
    _found: dict[Any, Any] = field(default_factory=dict, repr=False)

    def once(self, measure: Callable[[GroupedValues], T]) -> T:
        """Return `measure(self)`, computed once, so that several statistics share one pass over the data."""
        if measure not in self._found:
            self._found[measure] = measure(self)
        return cast(T, self._found[measure])

    @cached_property
    def row_moments(self) -> tuple[Tensor, ...] | None:
        """Smallest, largest, sum and squared deviations of each group, by a compiled loop if possible."""
        return row_moments(self.values)

    @cached_property
    def ends(self) -> tuple[Tensor, Tensor]:
        """The smallest and the largest value of each group; NaN for a group that has a NaN."""
        if self.row_moments is not None:  # takes as long as `amin` and `amax`, and most other statistics use it
            return self.row_moments[0], self.row_moments[1]
        return self.values.amin(1), self.values.amax(1)

    @cached_property
    def nans(self) -> Tensor | None:
        """A mask of the NaNs; None if there are none, which `ends` shows much faster than a search."""
        if self.row_moments is not None:  # it is None if there are NaNs
            return None
        return self.values.isnan() if bool(self.ends[0].isnan().any()) else None

    @cached_property
    def nan_count(self) -> Tensor:
        """The number of NaNs per group."""
        if self.nans is None:
            return torch.zeros(len(self.values), dtype=torch.int64, device=self.values.device)
        return self.nans.sum(1)

    @cached_property
    def count(self) -> Tensor:
        """The number of values per group, without NaNs."""
        if self.nans is None:
            groups, length = self.values.shape
            return torch.full((groups,), length, device=self.values.device)
        return self.values.shape[1] - self.nan_count

    def fill(self, tensor: Tensor, neutral: float) -> Tensor:
        """Return `tensor`, which has the layout of `values`, with `neutral` wherever `values` is NaN."""
        return tensor if self.nans is None else tensor.masked_fill(self.nans, neutral)


class MeasuredGroups(GroupedValues):
    """Groups of finite values of which only the number and the moments are known."""

    def __init__(
        self, kept_shape: torch.Size, row_moments: tuple[Tensor, ...], count: Tensor, nan_count: Tensor
    ) -> None:
        known = {"row_moments": row_moments, "nans": None, "count": count, "nan_count": nan_count}
        vars(self).update(known, kept_shape=kept_shape, _found={})


class ObservedTensor:
    """A tensor that several statistics observe; those with the same layout share its groups."""

    def __init__(self, tensor: Tensor) -> None:
        self.tensor = tensor.detach()
        self._grouped: dict[Layout, GroupedValues] = {}

    def grouped(self, layout: Layout) -> GroupedValues:
        """Return the groups of a layout, arranged once."""
        if layout not in self._grouped:
            self._grouped[layout] = arrange(self.tensor, layout)
        return self._grouped[layout]


def arrange(tensor: Tensor, layout: Layout) -> GroupedValues:
    """Return the values of `tensor` on the layout's device; with `dims=None` every element is a group."""
    if tensor.is_complex():
        raise ValueError(f"statistics need real numbers, got {tensor.dtype}")
    values = tensor.to(layout.device)
    if not values.is_floating_point():
        values = values.double()
    elif values.element_size() == 1:  # torch cannot compute with float8
        values = values.float()
    if layout.keep is None and layout.dims == "all":
        return GroupedValues(values.reshape(1, -1), torch.Size())
    reduced = _reduced(tensor, layout)
    kept = [dim for dim in range(tensor.ndim) if dim not in reduced]
    kept_shape = torch.Size(tensor.shape[dim] for dim in kept)
    return GroupedValues(values.permute(*kept, *reduced).reshape(kept_shape.numel(), -1), kept_shape)


def _reduced(tensor: Tensor, layout: Layout) -> list[int]:
    if layout.keep is None:
        assert layout.dims != "all", "handled by the caller"
        return _positions("dims", layout.dims or (), tensor)
    kept = _positions("keep", layout.keep, tensor)
    return [dim for dim in range(tensor.ndim) if dim not in kept]


def _positions(name: str, dims: tuple[int, ...], tensor: Tensor) -> list[int]:
    """Return `dims` counted from the front."""
    found = [dim + tensor.ndim if dim < 0 else dim for dim in dims]
    if len(set(found)) < len(found) or not all(0 <= dim < tensor.ndim for dim in found):
        raise ValueError(f"{name} {list(dims)} do not fit a tensor of shape {list(tensor.shape)}")
    return found
