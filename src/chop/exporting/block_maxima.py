"""The largest magnitudes of what shares a scale, from which a scale is computed again, bit for bit."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from chop.exporting.stored_tensor import StoredTensor
from chop.formats.bits import finite_magnitude


def needed_maxima(stored: StoredTensor, value: Tensor) -> Tensor | None:
    """Return the largest magnitude per scale of `value`, if rounding the stored numbers again changes them.

    The scale of the stored numbers may differ in its last bit: 127 times a scale, divided by 127, is not always
    the scale. With their original maxima in place, the same scales follow.
    """
    numbers = stored.numbers()
    if torch.equal(stored.format.quantize(numbers), numbers):
        return None
    largest = _largest(stored, value)
    if not torch.equal(
        stored.format.quantize(with_maxima(numbers, stored.padded, stored.codes.shape, largest)), numbers
    ):
        raise ValueError("whose numbers change when they are rounded again")
    return largest


def with_maxima(numbers: Tensor, padded: Sequence[int], blocks: Sequence[int], largest: Tensor) -> Tensor:
    """Return numbers in which a largest element of each block has its original magnitude, and none a larger one."""
    grouped = in_blocks(numbers, padded, blocks)
    dims = _shared_dims(grouped, largest)
    kept = [d for d in range(grouped.dim()) if d not in dims]
    rows = grouped.permute(*kept, *dims).reshape(largest.numel(), -1)
    limit, at = largest.reshape(-1, 1), rows.abs().argmax(1, keepdim=True)
    rows = rows.clamp(-limit, limit).scatter(1, at, limit.copysign(rows.gather(1, at)))
    order = [*kept, *dims]
    restored = rows.reshape([grouped.shape[d] for d in order]).permute([order.index(d) for d in range(len(order))])
    return restored.reshape(tuple(padded))[tuple(slice(n) for n in numbers.shape)].contiguous()


def in_blocks(x: Tensor, padded: Sequence[int], blocks: Sequence[int]) -> Tensor:
    """Return a tensor in the shape of its blocks; zeros fill the last ones."""
    missing = [p for n, m in zip(reversed(x.shape), reversed(padded), strict=True) for p in (0, m - n)]
    return F.pad(x, missing).reshape(tuple(blocks))


def _largest(stored: StoredTensor, value: Tensor) -> Tensor:
    assert stored.scale is not None, "a format without scales does not change numbers that it has rounded"
    covered = value.clamp(min=0) if stored.kind == "unsigned" else value
    grouped = in_blocks(finite_magnitude(covered), stored.padded, stored.codes.shape)
    return grouped.amax(_shared_dims(grouped, stored.scale), keepdim=True).reshape(stored.scale.shape)


def _shared_dims(grouped: Tensor, scale: Tensor) -> list[int]:
    """Return the dimensions along which elements share a scale."""
    shape = [1] * (grouped.dim() - scale.dim()) + list(scale.shape)
    return [d for d, n in enumerate(shape) if n == 1]
