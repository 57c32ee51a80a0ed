"""Bounds on the tensors that a graph file can ask for when it is run."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch.utils import _pytree as pytree

from chop.ir.graph.graph_module import NodeRef

MAX_CONSTANT_NUMEL = 2**32
"""The most elements that sizes written in a file may give a tensor; 16 GB of float32."""
_GROWING = (
    *("expand", "broadcast_to", "repeat", "tile", "repeat_interleave", "pad", "constant_pad_nd", "interpolate"),
    *("one_hot", "bincount"),
)
_SQUARE = ("diag", "diag_embed")  # an offset adds rows and columns
_METHODS = ("new_zeros", "new_ones", "new_full", "new_empty")
_CONSTRUCTORS = (
    *("zeros", "ones", "full", "empty", "empty_strided", "arange", "linspace", "eye"),
    *("rand", "randn", "randint", "randperm", *_METHODS),
)
_NOT_SIZES = (
    "out",
    "dtype",
    "layout",
    "device",
    "pin_memory",
    "requires_grad",
    "generator",
    "names",
    "memory_format",
)


def check_size(name: str, target: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
    """Raise an error if the sizes written in the call of node `name` would fill the memory."""
    function = getattr(target, "__name__", str(target)).partition(".")[0]  # `zeros` for the overload zeros.default
    if function not in (*_GROWING, *_SQUARE, *_CONSTRUCTORS):
        return
    numel = _constructed(function, target, args, kwargs) if function in _CONSTRUCTORS else None
    if numel is None:
        sizes = pytree.tree_leaves((args, kwargs))
        numel = math.prod(abs(size) for size in sizes if isinstance(size, int) and size)
        numel **= 2 if function in _SQUARE else 1
    if numel > MAX_CONSTANT_NUMEL:
        raise ValueError(f"node '{name}' makes a tensor of {numel:.3g} elements with '{function}'")


def _constructed(function: str, target: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> int | None:
    """Return the elements in the memory of a constructor's result, with 1 for the sizes that nodes give.

    The constructor runs on the device `meta`, which allocates nothing. The result is None if it fails there.
    """
    call = getattr(torch.Tensor, target) if isinstance(target, str) else target
    sizes = {key: value for key, value in kwargs.items() if key not in _NOT_SIZES}
    args, sizes = pytree.tree_map_only(NodeRef, lambda _: 1, (args, sizes))
    if function in _METHODS:
        args = (torch.empty(0, device="meta"), *args[1:])
    try:
        made: torch.Tensor = call(*args, **sizes, device="meta")
        return max(made.numel(), made.untyped_storage().nbytes() // made.itemsize)
    except (TypeError, RuntimeError, ValueError):
        return None
