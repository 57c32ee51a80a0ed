"""A bound on the tensors that a graph file can ask for when it is run."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch.utils import _pytree as pytree

from chop.ir.graph.graph_module import NodeRef

MAX_CONSTANT_NUMEL = 2**32
"""The most elements that sizes written in a file may give all tensors together; 16 GB of float32."""
_JOINING = ("cat", "concat", "concatenate", "stack", "hstack", "vstack", "dstack")
_GROWING = (
    *("expand", "broadcast_to", "repeat", "tile", "repeat_interleave", "pad", "constant_pad_nd", "interpolate"),
    *("one_hot", "bincount"),
)
_MULTIPLYING = ("repeat", "tile", "repeat_interleave", "one_hot", "diag", "diag_embed")
"""Functions whose sizes multiply those of their input."""
_KEEPING = (
    *("relu", "add", "sub", "mul", "truediv", "div", "neg", "abs", "clone", "contiguous", "to", "float", "sigmoid"),
    *("view", "reshape", "permute", "transpose", "flatten", "unsqueeze", "squeeze", "tanh", "exp", "gelu"),
)
"""Functions whose result is as large as their largest input."""
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


class SizeBound:
    """The elements that the sizes in a file give the tensors of a graph, if its inputs had one element each.

    Sizes multiply: a tensor that is repeated ten times, twice, has a hundred elements. After a layer or a product
    of matrices the count begins again, because their results need not be larger than their inputs.
    """

    def __init__(self) -> None:
        self._numel: dict[str, float] = {}
        self._total = 0.0

    def add(self, name: str, target: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        """Add the result of node `name`; raise an error if it, or all of them together, would fill the memory."""
        function = getattr(target, "__name__", str(target)).partition(".")[0]  # `zeros` for zeros.default
        leaves = pytree.tree_leaves((args, kwargs))
        read = [self._numel.get(leaf.name, 1.0) for leaf in leaves if isinstance(leaf, NodeRef)]
        if function in (*_GROWING, *_SQUARE, *_CONSTRUCTORS):
            made = _made(function, target, args, kwargs)
            numel = made * max(read, default=1.0) if function in _MULTIPLYING else made
        elif function in (*_JOINING, *_KEEPING):
            numel = sum(read) if function in _JOINING else max(read, default=1.0)
        else:
            return
        if numel > MAX_CONSTANT_NUMEL:
            raise ValueError(f"node '{name}' makes a tensor of {numel:.3g} elements with '{function}'")
        self._numel[name] = float(numel)
        self._total += 0.0 if function in _KEEPING else float(numel)
        if self._total > MAX_CONSTANT_NUMEL:
            raise ValueError(f"the nodes up to '{name}' make tensors of {self._total:.3g} elements together")


def _made(function: str, target: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> int:
    """Return the elements that the sizes in a call stand for."""
    numel = _constructed(function, target, args, kwargs) if function in _CONSTRUCTORS else None
    if numel is not None:
        return numel
    sizes = (leaf for leaf in pytree.tree_leaves((args, kwargs)) if isinstance(leaf, int) and leaf)
    return int(math.prod(map(abs, sizes)) ** (2 if function in _SQUARE else 1))


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
