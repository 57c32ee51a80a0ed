"""A GraphModule that keeps the full state of its model, and is copied and pickled with its metadata."""

from __future__ import annotations

import copy
import copyreg
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Self

import torch
from torch import Tensor, fx, nn
from torch._ops import OpOverload
from torch.fx.node import map_aggregate
from torch.utils import _pytree as pytree

from chop.ir.graph.input_sizes import CAPTURED_SIZES, CapturedSizes, check_sizes, explain_sizes, input_sizes
from chop.ir.graph.learned_scales import bind_scales
from chop.ir.graph.meta import NodeMeta
from chop.ir.graph.training_mode import BY_MODE, EVALUATION_ONLY, MODE_OF, ByMode, check_mode, set_arguments
from chop.ops import function_named, op_of_function, qualified_name


@dataclass(frozen=True)
class NodeRef:
    """A reference by name, for a node that is an argument of another node."""

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
    mode_of: str = ""
    captured_sizes: CapturedSizes | None = None
    evaluation_only: Mapping[str, str] = field(default_factory=dict)
    mase: NodeMeta | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        # pickle does not find some functions of torch, which are created inside others; the op table does.
        known = self.op == "call_function" and op_of_function(self.target) is not None
        target = qualified_name(self.target) if known else self.target
        return _read_record, (known, {**vars(self), "target": target})


def _read_record(known: bool, fields: dict[str, Any]) -> NodeRecord:
    target = function_named(fields["target"]) if known else fields["target"]
    return NodeRecord(**{**fields, "target": target})


def _overload_named(name: str) -> OpOverload:
    overload: OpOverload = operator.attrgetter(name)(torch.ops)
    return overload


# torch has no pickling of its own for overloads such as `aten.linear.default`
copyreg.pickle(OpOverload, lambda overload: (_overload_named, (str(overload),)))


class MaseGraphModule(fx.GraphModule):
    """A GraphModule that is copied and pickled with its nodes and its full state, part of which fx would drop."""

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore, (type(self).__name__, self._state(), records(self.graph))

    def __deepcopy__(self, memo: dict[int, Any]) -> MaseGraphModule:
        state = copy.deepcopy(self._state(), memo)
        graph = copy.deepcopy(self.graph, memo)
        relink(graph)
        return graph_module(_root(state), graph, type(self).__name__)

    def _state(self) -> dict[str, Any]:
        return {key: vars(self)[key] for key in _STATE}

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        """Move parameters and buffers; torch has no public hook for it, and its RNNs override this as well."""
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        self._follow_device(fn)
        return self

    def train(self, mode: bool = True) -> Self:
        super().train(mode)
        self._follow_modes()
        return self

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        self._follow_modes()  # the mode of a submodule may have been set
        check_mode(self._evaluation_only, self)
        given = {name: value for (name, _), value in zip(self._inputs, args, strict=False)} | kwargs
        check_sizes(self._inputs, given)
        try:
            return super().__call__(*args, **kwargs)
        except (RuntimeError, IndexError) as error:
            problem = explain_sizes(self._inputs, given)
            if problem:
                raise ValueError(problem) from error
            raise

    def recompile(self) -> Any:
        self._mode_followers = [node for node in self.graph.nodes if BY_MODE in node.meta]
        self._inputs = input_sizes(self.graph)
        self._evaluation_only = dict(self.graph.output_node().meta.get(EVALUATION_ONLY, {}))
        self._generated_from = _calls(self.graph)
        return super().recompile()

    def recompile_if_changed(self) -> None:
        """Generate the code again if nodes have changed; new layers at the same paths need no new code."""
        before, after = self._generated_from, _calls(self.graph)
        if len(before) != len(after) or not all(map(operator.is_, before, after)):  # 1 and True are equal
            self.recompile()

    def _follow_device(self, move: Callable[[Tensor], Tensor]) -> None:
        """Let nodes that make tensors make them where the model was moved to, such as those of `torch.arange`."""
        made_on = {argument for node in self.graph.nodes for argument in _devices(node)}
        targets = {device: move(torch.empty(0, device=device)).device for device in made_on}
        if all(device == target for device, target in targets.items()):
            return
        for node in self.graph.nodes:
            if any(_devices(node)):
                retarget = partial(pytree.tree_map_only, torch.device, lambda device: targets.get(device, device))
                node.args, node.kwargs = retarget(node.args), retarget(node.kwargs)
        self.recompile()

    def _follow_modes(self) -> None:
        if self._mode_followers and set_arguments(self._mode_followers, self):
            self.recompile()


def _devices(node: fx.Node) -> list[torch.device]:
    """Return the devices among the arguments of a node."""
    arguments = pytree.tree_leaves((node.args, node.kwargs))
    return [argument for argument in arguments if isinstance(argument, torch.device)]


def _calls(graph: fx.Graph) -> list[object]:
    """Return what the code of a graph is generated from; a change replaces some of these objects."""
    return [part for node in graph.nodes for part in (node.op, node.target, node.name, node.args, node.kwargs)]


_STATE = tuple(vars(nn.Module()))
_HOOKS = tuple(key for key in _STATE if "hook" in key)


def _root(state: dict[str, Any]) -> nn.Module:
    root = nn.Module()
    vars(root).update(state)
    return root


def has_hooks(module: nn.Module) -> bool:
    """Whether forward, backward or state dict hooks are registered on a module."""
    return any(vars(module).get(key) for key in _HOOKS)


def graph_module(root: nn.Module, graph: fx.Graph, name: str | None = None) -> MaseGraphModule:
    """Return a module that runs `graph` on the layers of `root`, with all state, modes and hooks of `root`.

    fx itself drops what the graph does not use, which changes the keys of the state dict.
    """
    bind_scales(graph, root)
    module = MaseGraphModule(root, graph, name or type(root).__name__)
    vars(module).update({key: copy.copy(vars(root)[key]) for key in _HOOKS})
    _take_over(module, root)
    return module


def _take_over(made: nn.Module, original: nn.Module) -> None:
    """Restore what fx leaves out when it rebuilds a container, in the order of the original."""
    constants = made._buffers.keys() - original._buffers.keys()  # plain attributes of the original
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
    """Return the nodes of a graph as plain data, in order."""

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
            node.meta.get(MODE_OF, ""),
            node.meta.get(CAPTURED_SIZES),
            node.meta.get(EVALUATION_ONLY, {}),
            node.meta.get("mase"),
        )
        for node in graph.nodes
    ]


def build_graph(nodes: list[NodeRecord]) -> fx.Graph:
    """Return the graph of these records."""
    graph = fx.Graph()
    built: dict[str, fx.Node] = {}

    def by_node(argument: Any) -> Any:
        if isinstance(argument, NodeRef) and argument.name not in built:
            raise ValueError(f"'{argument.name}' is used before a node of that name is defined")
        return built[argument.name] if isinstance(argument, NodeRef) else argument

    for record in nodes:
        args: Any = map_aggregate(record.args, by_node)
        kwargs: Any = map_aggregate(record.kwargs, by_node)
        node = graph.create_node(record.op, record.target, args, kwargs, name=record.name)
        if node.name != record.name:
            raise ValueError(f"'{record.name}' cannot be the name of a node: torch.fx changes it to '{node.name}'")
        if record.by_mode:
            node.meta[BY_MODE], node.meta[MODE_OF] = record.by_mode, record.mode_of
        if record.captured_sizes is not None:
            node.meta[CAPTURED_SIZES] = record.captured_sizes
        if record.evaluation_only:
            node.meta[EVALUATION_ONLY] = record.evaluation_only
        if record.mase is not None:
            node.meta["mase"] = record.mase.copied(node)
        built[record.name] = node
    return graph


def relink(graph: fx.Graph) -> None:
    """Give each node its own metadata, after fx copied the nodes."""
    for node in graph.nodes:
        if "mase" in node.meta:
            node.meta["mase"] = node.meta["mase"].copied(node)


def _restore(name: str, state: dict[str, Any], nodes: list[NodeRecord]) -> MaseGraphModule:
    return graph_module(_root(state), build_graph(nodes), name)
