"""The nodes of an exported program as one graph, without wrappers and bookkeeping."""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch import fx
from torch.fx.node import map_aggregate

from chop.ir.graph.capture.errors import ExportError

_WRAPPERS = {"wrap_with_set_grad_enabled": 1, "wrap_with_autocast": 4}
"""Operators that run a submodule, and its position among their arguments."""
_BOOKKEEPING = (
    "_assert_tensor_metadata",
    "_assert_scalar",
    "_assert_async",
    "sym_constrain_range",
    "sym_constrain_range_for_size",
)
_SAME_VALUE = ("alias", "lift_fresh", "detach_")
"""Operators that return their input; `detach_` follows each constant that is created in a forward."""


def inline(graph: fx.Graph, source: fx.GraphModule, inputs: list[Any]) -> Any:
    """Copy the nodes of `source` into `graph`; return what takes the place of its output.

    `inputs` are the nodes of `graph` for the placeholders of `source`. Wrapped submodules become plain nodes: the
    graph runs in the caller's grad mode.
    """
    made: dict[fx.Node, Any] = {}
    remaining = iter(inputs)

    def new(argument: Any) -> Any:
        return map_aggregate(argument, lambda leaf: made[leaf] if isinstance(leaf, fx.Node) else leaf)

    for node in source.graph.nodes:
        match node.op:
            case "placeholder":
                made[node] = next(remaining)
            case "get_attr":
                made[node] = getattr(source, str(node.target))
            case "output":
                return new(node.args[0])
            case _:
                made[node] = _inlined(graph, node, new)
    raise AssertionError("every graph has an output")


def _inlined(graph: fx.Graph, node: fx.Node, new: Any) -> Any:
    name = operator_name(node.target)
    if name in _WRAPPERS:
        *options, submodule = (new(argument) for argument in node.args[: _WRAPPERS[name] + 1])
        if name == "wrap_with_autocast" and options[2]:
            raise ExportError("the model computes under torch.autocast, which a graph cannot represent")
        return inline(graph, submodule, [new(argument) for argument in node.args[len(options) + 1 :]])
    if name == "flat_apply":
        raise ExportError("the model computes with a torch.autograd.Function, which a graph cannot represent")
    if name in _BOOKKEEPING:
        return None
    if name in _SAME_VALUE:
        return new(node.args[0])
    if node.target is operator.getitem and isinstance(new(node.args[0]), tuple | list):
        return new(node.args[0])[node.args[1]]
    return graph.node_copy(node, new)


def operator_name(target: Any) -> str:
    """Return the name of a function without overload: `linear` for `aten.linear.default`."""
    if isinstance(target, torch._ops.OpOverload):
        return target._schema.name.partition("::")[2]
    return str(getattr(target, "__name__", target))
