"""Computing with rounded copies of large tensors without keeping them."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor

from chop.formats import Format

LARGE = 2**19
"""Elements from which on a second copy of a tensor costs more than to avoid it: 2 MB of float32."""
_NUM_SLICES = 8


def by_slices(compute: Callable[[Tensor], Tensor], rows: Tensor) -> Tensor:
    """`compute(rows)`, a few rows at a time, for what computes each row by itself."""
    result: Tensor | None = None
    done = 0
    for part in rows.split(max(1, -(-len(rows) // _NUM_SLICES))):
        y = compute(part)
        if result is None:
            result = y.new_empty((len(rows), *y.shape[1:]))
        result[done : done + len(y)] = y
        done += len(y)
    assert result is not None, "a large tensor has rows"
    return result


def recomputed(
    rounded: Tensor, original: Tensor, number_format: Format, scale: Tensor | None
) -> AbstractContextManager[Any]:
    """Within, autograd remembers `original`, which lives on anyway, in the place of its rounded copy."""
    if rounded is original or not number_format.is_repeatable:
        return nullcontext()
    same = (rounded.data_ptr(), rounded._version, rounded.shape)
    version = original._version

    def pack(saved: Tensor) -> Tensor | None:
        # An op that works in place leaves its result where the rounded copy was, with another version.
        return None if (saved.data_ptr(), saved._version, saved.shape) == same else saved

    def unpack(kept: Tensor | None) -> Tensor:
        if kept is not None:
            return kept
        if original._version != version:
            raise RuntimeError("a tensor that a quantised layer needs for its gradient was changed in place")
        with torch.no_grad():
            return number_format(original, scale) if scale is not None else number_format(original)

    return torch.autograd.graph.saved_tensors_hooks(pack, unpack)
