"""Names in a file that end up in code: fx writes the forward of a graph as source, and runs that.

A name from a stranger must therefore be nothing but a name, and lead to nothing but what modules hold by it.
"""

from __future__ import annotations

import keyword
from collections.abc import Iterable
from typing import Any

from torch import Tensor, nn

from chop.ir.graph.graph_module import NodeRecord

_RESERVED = ("self", "torch")
"""What fx's code calls things by, whatever else has that name."""

_HOLDERS = {"call_module": ("_modules",), "get_attr": ("_parameters", "_buffers")}


def identifier(name: Any) -> str:
    """The name of a node, an input or a keyword. (To Python some letters are the same as the ASCII ones.)"""
    is_name = isinstance(name, str) and name.isascii() and name.isidentifier()
    if not is_name or keyword.iskeyword(name) or name in _RESERVED:
        raise ValueError(f"'{name}' cannot be the name of a node or of an argument")
    return str(name)


def segment(name: Any) -> str:
    """The name of a module, parameter or buffer. fx puts one that is no identifier between double quotes."""
    is_text = isinstance(name, str) and name.isascii() and name.isprintable() and name != ""
    if not is_text or any(character in name for character in "\"'\\."):
        raise ValueError(f"'{name}' cannot be the name of a module; ASCII letters, digits and '-' are safe")
    return str(name)


def check_targets(model: nn.Module, nodes: Iterable[NodeRecord]) -> None:
    """Let nodes call modules and read parameters and buffers, and nothing else that Python finds on their path."""
    for node in nodes:
        if node.op in _HOLDERS:
            *path, last = node.target.split(".")
            owner: Any = model
            for name in path:
                owner = _held(owner, name, ("_modules",), node)
            _held(owner, last, _HOLDERS[node.op], node)


def _held(owner: nn.Module, name: str, holders: tuple[str, ...], node: NodeRecord) -> nn.Module | Tensor:
    """What a module holds under a name, if that is also what its attribute of that name is."""
    for holder in holders:
        found: nn.Module | Tensor | None = vars(owner)[holder].get(segment(name))
        if found is not None and getattr(owner, name) is found:
            return found
    raise ValueError(f"node '{node.name}' uses '{node.target}', but the model holds nothing there")
