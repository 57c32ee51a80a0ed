"""The nodes of an exported program, without wrappers and bookkeeping, and with calls of layers.

torch.export records what a layer computes: `nn.Linear` becomes `aten.linear(x, weight, bias)`. Every node keeps the
paths of the modules that it was called in, so the nodes of a known layer can be replaced by a call of the layer.
"""

from __future__ import annotations

import inspect
import operator
from collections.abc import Mapping
from typing import Any

import torch
from torch import fx, nn
from torch.fx.node import map_aggregate

from chop.ir.graph.capture.errors import ExportError
from chop.nn.quantized import QuantizedLayer
from chop.ops import op_of_module

STACK = "nn_module_stack"
"""The key in a node's `meta` of the modules that it was called in: by call, the path and class of the module.

The second call of a module `fc` has the key `fc@1`."""
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


def raise_modules(graph: fx.Graph, model: nn.Module, leaf_modules: tuple[type[nn.Module], ...] = ()) -> None:
    """Replace the nodes of each call of a known layer by one node that calls the layer."""
    groups: dict[tuple[str, str], list[fx.Node]] = {}
    modules = [(path, module) for path, module in model.named_modules(remove_duplicate=False) if path]
    layers = {path for path, module in modules if _computes_op(module)}
    leaves = {path for path, module in modules if isinstance(module, leaf_modules)}
    for node in graph.nodes:
        if node.op == "call_function":
            stack: Mapping[str, tuple[str, Any]] = node.meta.get(STACK) or {}
            calls = ((call, path) for call, (path, _) in stack.items() if path in layers or path in leaves)
            outermost = next(calls, None)
            if outermost is not None:
                groups.setdefault(outermost, []).append(node)
    for (_, path), nodes in groups.items():
        problem = _raise(graph, path, model.get_submodule(path), nodes)
        if problem and path in leaves:
            raise ValueError(
                f"leaf_modules: torch.export cannot keep '{path}' as one node, because it has {problem}"
            )


def _computes_op(module: nn.Module) -> bool:
    """Whether a module computes what the op table says, from one tensor, so that nodes show all that it was given.

    A class that overrides `forward` is not known, even if it inherits from a layer: OPT's positional embedding
    adds 2 to the indices.
    """
    if isinstance(module, QuantizedLayer):
        return True
    is_op = op_of_module(type(module)) is not None and "forward" not in vars(module)
    return is_op and len(inspect.signature(module.forward).parameters) == 1


def _raise(graph: fx.Graph, path: str, module: nn.Module, nodes: list[fx.Node]) -> str:
    """Replace the nodes of one call; return why that is not possible, or ''."""
    group = set(nodes)
    own = {id(tensor) for tensor in (*module.parameters(), *module.buffers())}
    sources = dict.fromkeys(source for node in nodes for source in node.all_input_nodes if source not in group)
    tensors = (each for each in sources if isinstance(each.meta.get("val"), torch.Tensor))  # others are sizes
    inputs = [each for each in tensors if id(each.meta.get("attribute")) not in own]
    results = [node for node in nodes if any(reader not in group for reader in node.users)]
    if not results and next(module.buffers(), None) is not None:
        results = nodes[-1:]  # it may update its statistics
    if len(inputs) != 1 or len(results) != 1:
        return f"{len(inputs)} inputs and {len(results)} results"
    with graph.inserting_after(nodes[-1]):
        call = graph.call_module(path, tuple(inputs))
    call.meta = dict(results[0].meta)
    results[0].replace_all_uses_with(call, delete_user_cb=lambda reader: reader not in group)
    for node in reversed(nodes):
        graph.erase_node(node)
    return ""
