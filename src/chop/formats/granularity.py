"""What shares a scale that is computed from data: the tensor, a channel, a row or a group of elements."""

from __future__ import annotations

from typing import Literal

from torch import Tensor

Granularity = Literal["tensor", "channel", "row", "group"]
SMALLEST_SCALE = 2.0**-120
"""The scale of zeros: so large that a value divided by it is finite."""


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
