"""Ops that overwrite their input."""

from __future__ import annotations

import operator
from typing import Any

from torch import fx, nn
from torch._ops import OpOverload

from chop.nn.quantized import QuantizedCall

_OPERATORS = (operator.iadd, operator.isub, operator.imul, operator.itruediv)


def writes_in_place(node: fx.Node, module: nn.Module | None) -> bool:
    """Whether a node of the op table, which calls `module` if that is not None, overwrites its first input."""
    if module is not None:
        return bool(getattr(module, "inplace", False))
    target: Any = node.target.target if isinstance(node.target, QuantizedCall) else node.target
    if isinstance(target, OpOverload):
        first = target._schema.arguments[:1]
        return any(argument.alias_info is not None and argument.alias_info.is_write for argument in first)
    name = str(getattr(target, "__name__", target))
    return (
        target in _OPERATORS or _has_inplace_set(target, node) or (name.endswith("_") and not name.endswith("__"))
    )


def _has_inplace_set(function: Any, node: fx.Node) -> bool:
    """Whether the argument `inplace` of a function such as `F.relu` is set, by name or by position."""
    code = getattr(function, "__code__", None)
    names = code.co_varnames[: code.co_argcount] if code is not None else ()
    if "inplace" not in names:
        return False
    position = names.index("inplace")
    return bool(node.args[position] if position < len(node.args) else node.kwargs.get("inplace", False))


def read_result_instead(node: fx.Node) -> None:
    """Let later readers of what `node` overwrites read its result instead.

    For ops that used to work in place and now work on a copy. Views of the overwritten value are not changed.
    """
    sources = _overwritten(node)
    passed = False
    for later in node.graph.nodes:
        if passed:
            for source in sources.intersection(later.all_input_nodes):
                later.replace_input_with(source, node)
        passed = passed or later is node


def _overwritten(node: fx.Node) -> set[fx.Node]:
    """Return the nodes whose result `node` overwrites: its first input, and what that input overwrote in turn."""
    found: set[fx.Node] = set()
    source = node.args[0] if node.args else next(iter(node.kwargs.values()))
    while isinstance(source, fx.Node):
        found.add(source)
        meta = source.meta["mase"]
        if meta.op is None or not writes_in_place(source, meta.module) or not source.args:
            break
        source = source.args[0]
    return found
