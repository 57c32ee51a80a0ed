"""Checks of names in a file: torch.fx generates Python source from them, and runs it.

A name from an untrusted file must therefore be a plain name, and refer to a module, parameter or buffer only.
"""

from __future__ import annotations

import keyword
import operator
from collections.abc import Iterable
from typing import Any

from torch import Tensor, nn
from torch.utils import _pytree as pytree

from chop.ir.graph.graph_module import NodeRecord, NodeRef
from chop.ir.graph.training_mode import EVALUATION_ONLY, MODE_OF
from chop.ops import op_of_function

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
        for path in (node.meta.get(MODE_OF, ""), *node.meta.get(EVALUATION_ONLY, ())):
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
