"""What shares a scale that is computed from data: the tensor, a channel, a row or a group of elements."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from typing import Literal

import torch
from torch import Tensor

from chop.formats.kernels.families import Element, Scale, round_blocks, round_tensor
from chop.formats.kernels.loops.parameters import ScaleParameters
from chop.formats.parts.bits import in_shape

Granularity = Literal["tensor", "channel", "row", "group"]
SMALLEST_SCALE = 2.0**-100
"""The scale of zeros and very small numbers: so large that its products with all elements are normal numbers."""


def num_scales(shape: Sequence[int], granularity: Granularity, channel_dim: int | None) -> int:
    """Return the number of scales of channels or rows (not of groups); 0 if the whole tensor shares one."""
    if granularity == "tensor" or len(shape) < 2:
        return 0
    if granularity == "row":
        return math.prod(shape[:-1])
    return 0 if channel_dim is None else shape[channel_dim]


def rows_have_own_scales(x: Tensor, granularity: Granularity, channel_dim: int | None) -> bool:
    """Return whether no two indices of the first dimension of `x` share a scale."""
    if x.dim() < 2 or granularity == "row":
        return x.dim() > 1
    return granularity == "channel" and channel_dim is not None and channel_dim % x.dim() == 0


def scale_covering(largest: Tensor, top: float) -> Tensor:
    """Return the scale that maps `largest` to the element `top`; its product with `top` does not overflow."""
    return largest.div(top).clamp_(*scale_limits(top, largest.dtype))


def scale_limits(top: float, dtype: torch.dtype = torch.float32) -> tuple[float, float]:
    """Return the smallest and the largest result of `scale_covering`."""
    return SMALLEST_SCALE, _largest_scale(top, dtype)


def round_by_loop(
    x: Tensor,
    granularity: Granularity,
    channel_dim: int | None,
    scale: Scale,
    element: Element | None,
) -> Tensor | None:
    """Return `x` rounded by a compiled loop, with a scale per tensor, channel or row; None if no loop can.

    `scale` is how the loop computes the scale from the largest magnitude.
    """
    if element is None or x.dim() == 0:
        return None
    if granularity == "row":
        return round_blocks(x, x.shape[-1], x.dim() - 1, scale, element)
    if granularity == "channel" and channel_dim is not None and x.dim() > 1:
        if channel_dim % x.dim() != 0 or not x.is_contiguous():
            return None
        rows = round_blocks(x.view(len(x), -1), x[0].numel(), 1, scale, element)
        return None if rows is None else in_shape(rows, x.shape)
    return round_tensor(x, scale, element)


def real_scale(top: float) -> Scale:
    """Return how a compiled loop computes `scale_covering`."""
    low, high = scale_limits(top)
    return Scale("real", ScaleParameters(low, high, top))


@cache
def _largest_scale(top: float, dtype: torch.dtype) -> float:
    """Return the largest scale whose product with `top` is finite."""
    significand, exponent = math.frexp(torch.finfo(dtype).max / top)
    spare = 1 - torch.finfo(dtype).eps  # one unit less in the last place, so that the product is not rounded up
    return math.ldexp(significand * spare, exponent)


def largest_of_each(magnitude: Tensor, granularity: Granularity, channel_dim: int | None) -> Tensor:
    """Return the maximum of what shares a scale (not for groups), in a shape that broadcasts against `magnitude`.

    A row is one index of all dimensions but the last: a token in a batch of sequences.
    """
    if granularity == "tensor":
        return magnitude.amax()
    if granularity == "row":
        return magnitude.amax(-1, keepdim=True) if magnitude.dim() else magnitude
    channel = None if channel_dim is None or magnitude.dim() < 2 else channel_dim % magnitude.dim()
    dims = tuple(d for d in range(magnitude.dim()) if d != channel)
    return magnitude.amax(dims, keepdim=True) if dims else magnitude


def group_indices(x: Tensor, granularity: Granularity, channel_dim: int | None) -> Tensor:
    """Return for each element of `x` the index of what shares its scale (not for groups)."""
    first = largest_of_each(torch.zeros(x.shape, device=x.device), granularity, channel_dim)
    return torch.arange(first.numel(), device=x.device).reshape(first.shape).expand(x.shape)
