"""One network that calls many ops side by side, so that one file per number format covers them all."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor, fx, nn

from chop.ir import MaseGraph
from samples import Sample, annotated


def network(calls: Mapping[str, Sample]) -> tuple[MaseGraph, dict[str, Tensor]]:
    """Return the annotated graph of calls, and its inputs; inputs and results are named after the calls."""
    traced = {name: MaseGraph(call.model().eval()) for name, call in calls.items()}
    inputs = {f"{name}_{key}": value for name, call in calls.items() for key, value in call.arguments().items()}
    graph = fx.Graph()
    given = {key: graph.placeholder(key) for key in inputs}
    graph.output({name: _copied(graph, traced[name].fx_graph, name, given) for name in calls})
    root = nn.ModuleDict({name: each.model for name, each in traced.items()})
    return annotated(fx.GraphModule(root, graph).eval(), **inputs), inputs


def _copied(graph: fx.Graph, call: fx.Graph, name: str, given: Mapping[str, fx.Node]) -> Any:
    """Add the nodes of a call to a graph, and return its result."""
    before = set(graph.nodes)
    inputs = {node: given[f"{name}_{node.name}"] for node in call.nodes if node.op == "placeholder"}
    result = graph.graph_copy(call, inputs)
    for node in set(graph.nodes) - before:
        if node.op in ("call_module", "get_attr"):
            node.target = f"{name}.{node.target}"
    return result
