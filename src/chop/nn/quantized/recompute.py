"""Computing with large rounded tensors without keeping rounded copies of them."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor

from chop.formats import Format

LARGE_NUMEL = 2**19
"""The number of elements from which avoiding a copy of a tensor pays off: 2 MB of float32."""
LARGE_IMAGES_NUMEL = 2**22
"""The same for images in evaluation: each call of a convolution rearranges its weights, so slices take longer."""
_NUM_SLICES = 8


def by_slices(compute: Callable[[Tensor], Tensor], rows: Tensor) -> Tensor:
    """Return `compute(rows)`, computed a few rows at a time; `compute` must treat each row independently."""
    result: Tensor | None = None
    done = 0
    for piece in rows.split(max(1, -(-len(rows) // _NUM_SLICES))):
        y = compute(piece)
        if result is None:
            result = y.new_empty((len(rows), *y.shape[1:]))
        result[done : done + len(y)] = y
        done += len(y)
    assert result is not None, "a large tensor has rows"
    return result


def recomputed(
    rounded: Tensor, original: Tensor, number_format: Format, scale: Tensor | None
) -> AbstractContextManager[Any]:
    """Let autograd save `original`, which stays alive anyway, instead of its rounded copy."""
    if rounded is original or not number_format.is_repeatable:
        return nullcontext()
    same = (rounded.data_ptr(), rounded._version, rounded.shape)
    version = original._version

    def pack(saved: Tensor) -> Tensor | None:
        # An in-place op writes its result into the memory of the rounded copy and increments its version.
        return None if (saved.data_ptr(), saved._version, saved.shape) == same else saved

    def unpack(kept: Tensor | None) -> Tensor:
        if kept is not None:
            return kept
        if original._version != version:
            raise RuntimeError("a tensor that a quantised layer needs for its gradient was modified in place")
        with torch.no_grad():
            return number_format(original, scale) if scale is not None else number_format(original)

    return torch.autograd.graph.saved_tensors_hooks(pack, unpack)
