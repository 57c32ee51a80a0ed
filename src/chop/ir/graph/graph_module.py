"""A GraphModule that keeps all of its model's state and can be copied and pickled with what is known of it."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import Any, Self

from torch import fx, nn
from torch.fx.node import map_aggregate

from chop.ir.graph.meta import NodeMeta
from chop.ir.graph.training_mode import BY_MODE, ByMode, set_mode
from chop.ops import function_names, op_of_function, qualified_name


@dataclass(frozen=True)
class NodeRef:
    """A node as an argument of another, by name."""

    name: str


@dataclass(frozen=True)
class NodeRecord:
    """A node as plain data."""

    op: str
    name: str
    target: Any
    args: Any
    kwargs: Any
    by_mode: ByMode = field(default_factory=dict)
    meta: NodeMeta | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        # Some of torch's functions are made inside others, where pickle does not find them; the op table does.
        known = self.op == "call_function" and op_of_function(self.target) is not None
        target = qualified_name(self.target) if known else self.target
        return _read_record, (known, {**vars(self), "target": target})


def _read_record(known: bool, fields: dict[str, Any]) -> NodeRecord:
    target = function_names()[fields["target"]] if known else fields["target"]
    return NodeRecord(**{**fields, "target": target})


class MaseGraphModule(fx.GraphModule):
    """fx's GraphModule; copied and pickled as its nodes and all of its state, of which fx forgets a part."""

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore, (type(self).__name__, _state(self), records(self.graph))

    def __deepcopy__(self, memo: dict[int, Any]) -> MaseGraphModule:
        state = copy.deepcopy(_state(self), memo)
        graph = copy.deepcopy(self.graph, memo)
        relink(graph)
        return graph_module(_root(state), graph, type(self).__name__)

    def train(self, mode: bool = True) -> Self:
        super().train(mode)
        if set_mode(self.graph, mode):
            self.recompile()
        return self


_STATE = tuple(vars(nn.Module()))
_HOOKS = tuple(key for key in _STATE if "hook" in key)


def _state(module: nn.Module) -> dict[str, Any]:
    return {key: vars(module)[key] for key in _STATE}


def _root(state: dict[str, Any]) -> nn.Module:
    root = nn.Module()
    vars(root).update(state)
    return root


def has_hooks(module: nn.Module) -> bool:
    return any(vars(module).get(key) for key in _HOOKS)


def graph_module(root: nn.Module, graph: fx.Graph, name: str | None = None) -> MaseGraphModule:
    """A module that runs `graph` on the layers of `root`, with all of the state, modes and hooks of `root`.

    fx itself drops what the graph does not use, and with it keys of the state dict.
    """
    module = MaseGraphModule(root, graph, name or type(root).__name__)
    vars(module).update({key: copy.copy(vars(root)[key]) for key in _HOOKS})
    _take_over(module, root)
    return module


def _take_over(made: nn.Module, original: nn.Module) -> None:
    """Bring what fx leaves out when it makes a container anew, in the order of the original."""
    constants = made._buffers.keys() - original._buffers.keys()  # which are plain attributes of the original
    made.training = original.training
    made._parameters = {**original._parameters}
    made._buffers = {**original._buffers, **made._buffers}
    made._non_persistent_buffers_set = original._non_persistent_buffers_set | constants
    children = {**original._modules}
    for name, child in original._modules.items():
        container = made._modules.get(name)
        if child is not None and container is not None and container is not child:
            _take_over(container, child)
            children[name] = container
    made._modules = children


def records(graph: fx.Graph) -> list[NodeRecord]:
    """The nodes of a graph as plain data, in order."""

    def by_name(argument: Any) -> Any:
        return NodeRef(argument.name) if isinstance(argument, fx.Node) else argument

    return [
        NodeRecord(
            node.op,
            node.name,
            node.target,
            map_aggregate(node.args, by_name),
            map_aggregate(node.kwargs, by_name),
            node.meta.get(BY_MODE, {}),
            node.meta.get("mase"),
        )
        for node in graph.nodes
    ]


def build_graph(nodes: list[NodeRecord]) -> fx.Graph:
    """The graph that `records` was made from."""
    graph = fx.Graph()
    built: dict[str, fx.Node] = {}

    def by_node(argument: Any) -> Any:
        if isinstance(argument, NodeRef) and argument.name not in built:
            raise ValueError(f"'{argument.name}' is used as a node, but none before has that name")
        return built[argument.name] if isinstance(argument, NodeRef) else argument

    for record in nodes:
        args: Any = map_aggregate(record.args, by_node)
        kwargs: Any = map_aggregate(record.kwargs, by_node)
        node = graph.create_node(record.op, record.target, args, kwargs, name=record.name)
        if node.name != record.name:
            raise ValueError(f"'{record.name}' cannot be the name of a node, torch.fx makes '{node.name}' of it")
        if record.by_mode:
            node.meta[BY_MODE] = record.by_mode
        if record.meta is not None:
            node.meta["mase"] = record.meta.copied(node)
        built[record.name] = node
    return graph


def relink(graph: fx.Graph) -> None:
    """After fx copied nodes: let each node's metadata be its own."""
    for node in graph.nodes:
        if "mase" in node.meta:
            node.meta["mase"] = node.meta["mase"].copied(node)


def _restore(name: str, state: dict[str, Any], nodes: list[NodeRecord]) -> MaseGraphModule:
    return graph_module(_root(state), build_graph(nodes), name)
