"""Ops that overwrite their input."""

from __future__ import annotations

import operator
from typing import Any

from torch import fx, nn
from torch._ops import OpOverload

from chop.nn.quantized import QuantizedCall

_NAMES = ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "and", "or", "xor", "lshift", "rshift")
_OPERATORS = tuple(getattr(operator, f"i{name}") for name in _NAMES)
"""The operators that overwrite a tensor; `imatmul` returns a new one."""


def writes_in_place(node: fx.Node, module: nn.Module | None) -> bool:
    """Whether a node of the op table, which calls `module` if that is not None, overwrites its first input."""
    if module is not None:
        return bool(getattr(module, "inplace", False))
    target: Any = node.target.target if isinstance(node.target, QuantizedCall) else node.target
    if isinstance(target, OpOverload):
        first = target._schema.arguments[:1]
        return any(argument.alias_info is not None and argument.alias_info.is_write for argument in first)
    if getattr(target, "__module__", None) == operator.and_.__module__:
        return target in _OPERATORS
    name = str(getattr(target, "__name__", target))
    if name.endswith("_") and not name.endswith("__"):
        return True
    code = getattr(target, "__code__", None)
    names = code.co_varnames[: code.co_argcount] if code is not None else ()
    if "inplace" not in names:  # as in `F.relu`
        return False
    position = names.index("inplace")
    return bool(node.args[position] if position < len(node.args) else node.kwargs.get("inplace", False))


def overwrites_shared_memory(node: fx.Node) -> bool:
    """Whether the memory that `node` overwrites is kept, or read later in another way than from its result.

    In `v = x.view(2, 4); v.relu_(); return x` that is so: `x` must have the values after ReLU. True if
    in doubt.
    """
    meta = node.meta["mase"]
    source = overwritten_input(node)
    if source is None or not writes_in_place(node, meta.module):
        return False
    return any(
        other.op == "get_attr" or any(reader > node for reader in other.users)
        for other in _sharing_memory(source, before=node)
    )


def overwritten_input(node: fx.Node) -> fx.Node | None:
    """Return the first input of a node, which is the one that in-place ops overwrite."""
    first = next(iter((*node.args, *node.kwargs.values())), None)
    return first if isinstance(first, fx.Node) else None


def has_new_result(node: fx.Node) -> bool:
    """Whether the result of a node, unless it works in place, is not in the memory of an input."""
    op = node.meta["mase"].find_op()
    return op is not None and op.quantizable


def _sharing_memory(source: fx.Node, before: fx.Node) -> set[fx.Node]:
    """Return the nodes earlier than `before` whose results may share memory with that of `source`."""
    found: set[fx.Node] = set()
    waiting = [source]
    while waiting:
        node = waiting.pop()
        if node in found or not node < before:
            continue
        found.add(node)
        waiting += _shared_inputs(node)
        waiting += [reader for reader in node.users if node in _shared_inputs(reader)]
    return found


def _shared_inputs(node: fx.Node) -> list[fx.Node]:
    """Return the inputs whose memory the result of a node may share; unknown ops may return any input."""
    meta = node.meta["mase"]
    if not has_new_result(node):
        return node.all_input_nodes
    source = overwritten_input(node)
    return [source] if source is not None and writes_in_place(node, meta.module) else []
