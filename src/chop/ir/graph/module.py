"""A GraphModule that keeps all of its model's state and can be copied and pickled with what is known of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import fx, nn
from torch.fx.node import map_aggregate

from chop.ir.graph.meta import NodeMeta


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
    meta: NodeMeta | None = None


class MaseGraphModule(fx.GraphModule):
    """fx's GraphModule; pickled as its nodes, not as source to trace again, which would rename and forget."""

    def __reduce__(self) -> tuple[Any, ...]:
        state = {key: self.__dict__[key] for key in _MODULE_STATE}
        return _restore, (type(self).__name__, state, records(self.graph))

    def __deepcopy__(self, memo: dict[int, Any]) -> MaseGraphModule:
        new = super().__deepcopy__(memo)
        assert isinstance(new, MaseGraphModule)
        type(new).__name__ = type(self).__name__  # fx forgets it
        relink(new.graph)
        return new


_MODULE_STATE = ("training", "_parameters", "_buffers", "_modules", "_non_persistent_buffers_set")


def graph_module(root: nn.Module, graph: fx.Graph, name: str | None = None) -> MaseGraphModule:
    """A module that runs `graph` on the layers of `root`, with all of the state and the modes of `root`.

    fx itself drops what the graph does not use, and with it keys of the state dict.
    """
    module = MaseGraphModule(root, graph, name or type(root).__name__)
    present = dict(module.named_modules(remove_duplicate=False))
    for path, child in root.named_modules(remove_duplicate=False):
        if path not in present:
            parent, _, leaf = path.rpartition(".")
            setattr(module.get_submodule(parent), leaf, child)
            present = dict(module.named_modules(remove_duplicate=False))
        elif present[path] is not child:
            _take_over(present[path], child)
    return module


def _take_over(container: nn.Module, original: nn.Module) -> None:
    """Bring what fx leaves out when it makes a container anew: unused tensors, the mode, what is not saved."""
    container.training = original.training
    for name, parameter in original._parameters.items():
        if name not in container._parameters:
            container.register_parameter(name, parameter)
    for name, buffer in original._buffers.items():
        if name not in container._buffers:
            container.register_buffer(name, buffer)
    container._non_persistent_buffers_set |= original._non_persistent_buffers_set


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
            node.meta["mase"] if "mase" in node.meta else None,
        )
        for node in graph.nodes
    ]


def build_graph(nodes: list[NodeRecord]) -> fx.Graph:
    """The graph that `records` was made from."""
    graph = fx.Graph()
    built: dict[str, fx.Node] = {}

    def by_node(argument: Any) -> Any:
        return built[argument.name] if isinstance(argument, NodeRef) else argument

    for record in nodes:
        args: Any = map_aggregate(record.args, by_node)
        kwargs: Any = map_aggregate(record.kwargs, by_node)
        node = graph.create_node(record.op, record.target, args, kwargs, name=record.name)
        assert node.name == record.name, f"fx renamed {record.name} to {node.name}"
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
    root = nn.Module()
    root.__dict__.update(state)
    return graph_module(root, build_graph(nodes), name)
