"""Checks of a file that may come from anybody: its names, and the sizes of the tensors that it asks for.

torch.fx generates Python source from names, and runs it. A name from an untrusted file must therefore be a plain
name, and refer to a module, parameter or buffer only.
"""

from __future__ import annotations

import keyword
import math
import operator
from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from chop.ir.graph.graph_module import NodeRecord, NodeRef
from chop.ops import op_of_function

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
    *("out", "dtype", "layout", "device", "pin_memory", "requires_grad", "generator", "names", "memory_format"),
)
_RESERVED = ("self", "torch")
"""Names that the generated code uses itself."""

_HOLDERS = {"call_module": ("_modules",), "get_attr": ("_parameters", "_buffers")}


def identifier(name: Any) -> str:
    """Return `name` if it can name a node, an input or a keyword. (ASCII only: Python normalises other letters.)"""
    is_name = isinstance(name, str) and name.isascii() and name.isidentifier()
    if not is_name or keyword.iskeyword(name) or name in _RESERVED:
        raise ValueError(f"'{name}' is not a valid name for a node or an argument")
    return str(name)


def segment(name: Any) -> str:
    """Return `name` if it can name a module, parameter or buffer; torch.fx quotes it if it is not an identifier."""
    is_text = isinstance(name, str) and name.isascii() and name.isprintable() and name != ""
    if not is_text or any(character in name for character in "\"'\\."):
        raise ValueError(f"'{name}' cannot be the name of a module; ASCII letters, digits and '-' are safe")
    return str(name)


def check_targets(model: nn.Module, nodes: Iterable[NodeRecord]) -> None:
    """Raise an error if a node refers to anything but a module, parameter or buffer of `model`."""
    for node in nodes:
        for path in (node.mode_of, *node.evaluation_only):
            model.get_submodule(path)  # an AttributeError if there is none
        if node.op in _HOLDERS:
            *path, last = node.target.split(".")
            owner: Any = model
            for name in path:
                owner = _held(owner, name, ("_modules",), node)
            _held(owner, last, _HOLDERS[node.op], node)


def check_starred_inputs(nodes: Iterable[NodeRecord]) -> None:
    """Raise an error if a node uses `*args`, which is a tuple, as a tensor."""
    starred: set[str] = set()
    for node in nodes:
        if node.op == "placeholder" and node.target.startswith("*"):
            starred.add(node.name)
        op = op_of_function(node.target) if node.op == "call_function" else None
        takes_tuples = node.target is operator.getitem or (
            op is not None and any(each.variadic for each in op.operands)
        )
        used = [each.name for each in pytree.tree_leaves((node.args, node.kwargs)) if isinstance(each, NodeRef)]
        if node.op.startswith("call_") and not takes_tuples and starred.intersection(used):
            raise ValueError(f"node '{node.name}' uses '*{starred.intersection(used).pop()}' as a tensor")


def _held(owner: nn.Module, name: str, holders: tuple[str, ...], node: NodeRecord) -> nn.Module | Tensor:
    """Return the module, parameter or buffer called `name`, if the attribute of that name is the same object."""
    for holder in holders:
        found: nn.Module | Tensor | None = vars(owner)[holder].get(segment(name))
        if found is not None and getattr(owner, name) is found:
            return found
    raise ValueError(f"node '{node.name}' uses '{node.target}', which the model does not have")


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
    call = getattr(Tensor, target) if isinstance(target, str) else target
    sizes = {key: value for key, value in kwargs.items() if key not in _NOT_SIZES}
    args, sizes = pytree.tree_map_only(NodeRef, lambda _: 1, (args, sizes))
    if function in _METHODS:
        args = (torch.empty(0, device="meta"), *args[1:])
    try:
        made: Tensor = call(*args, **sizes, device="meta")
        return max(made.numel(), made.untyped_storage().nbytes() // made.itemsize)
    except (TypeError, RuntimeError, ValueError):
        return None
