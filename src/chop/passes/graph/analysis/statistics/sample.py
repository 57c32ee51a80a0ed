"""A tensor laid out for a reduction: one row a group, and along it the values that are reduced together."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import torch
from torch import Tensor


@dataclass(frozen=True)
class Sample:
    """The values of one tensor, [groups, values of each]; there is at least one."""

    values: Tensor
    kept_shape: torch.Size
    """The shape of the groups: that of the dimensions which are not reduced."""

    @cached_property
    def nans(self) -> Tensor | None:
        """Where NaNs are; None if there are none, which a sum tells much faster than a search."""
        if not self.values.sum().isnan():
            return None
        found = self.values.isnan()
        return found if found.any() else None

    @cached_property
    def nan_count(self) -> Tensor:
        """How many NaNs each group has."""
        if self.nans is None:
            return torch.zeros(len(self.values), dtype=torch.int64, device=self.values.device)
        return self.nans.sum(1)

    @property
    def count(self) -> Tensor:
        """How many values each group has, without NaNs."""
        return self.values.shape[1] - self.nan_count

    def fill(self, tensor: Tensor, neutral: float) -> Tensor:
        """`tensor`, in the layout of `values`, with a neutral number where they are NaN."""
        return tensor if self.nans is None else tensor.masked_fill(self.nans, neutral)


def arrange(tensor: Tensor, dims: Literal["all"] | tuple[int, ...] | None, device: str | None) -> Sample:
    """`tensor` on `device`, with the dimensions `dims` reduced; None reduces none, each element is a group."""
    if tensor.is_complex():
        raise ValueError(f"statistics are of real numbers, got {tensor.dtype}")
    values = tensor.detach().to(device)
    if not values.is_floating_point():
        values = values.double()
    if dims == "all":
        return Sample(values.reshape(1, -1), torch.Size())
    reduced = _positions(dims or (), tensor)
    kept = [dim for dim in range(tensor.ndim) if dim not in reduced]
    kept_shape = torch.Size(tensor.shape[dim] for dim in kept)
    return Sample(values.permute(*kept, *reduced).reshape(kept_shape.numel(), -1), kept_shape)


def _positions(dims: tuple[int, ...], tensor: Tensor) -> list[int]:
    """`dims` counted from the front."""
    found = [dim + tensor.ndim if dim < 0 else dim for dim in dims]
    if len(set(found)) < len(found) or not all(0 <= dim < tensor.ndim for dim in found):
        raise ValueError(f"dims {list(dims)} do not fit a tensor of shape {list(tensor.shape)}")
    return found
