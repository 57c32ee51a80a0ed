"""What the page shows about each node."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from torch import fx

from chop.formats import Format
from chop.ir import MaseGraph, NodeMeta
from chop.page.module_scopes import ModuleScope, module_scopes
from chop.page.tensor_values import TensorValues
from chop.page.tensors import PageTensor, describe_tensors, format_name

NamedNumbers = Mapping[str, Any]


@dataclass(frozen=True)
class ResultsByNode:
    """The results of the passes, by node."""

    values: TensorValues
    original: Mapping[str, NodeMeta]
    """The nodes of the original graph."""
    cost: Mapping[str, NamedNumbers]
    cost_before: Mapping[str, NamedNumbers]
    error: Mapping[str, NamedNumbers]
    alone: Mapping[str, NamedNumbers]
    """Sensitivity with only this node quantised."""
    all_but: Mapping[str, NamedNumbers]
    """Sensitivity with all nodes but this one quantised."""


@dataclass(frozen=True)
class NodeFormats:
    """The formats of a node's weight and of its input."""

    weight_format: str | None
    data_format: str | None
    bits_per_weight: float | None
    bits_per_input: float | None


@dataclass(frozen=True)
class OriginalNode(NodeFormats):
    """The formats and the cost of a node in the original graph."""

    cost: NamedNumbers | None


@dataclass(frozen=True)
class PageNode(NodeFormats):
    """One node of the page."""

    name: str
    label: str
    """Its name within its module."""
    path: str
    scope: ModuleScope
    kind: str
    op: str
    target: str
    settings: dict[str, str]
    inputs: list[int]
    """The positions of the nodes that it reads."""
    shape: list[int] | None
    quantizable: bool
    tensors: list[PageTensor]
    before: OriginalNode | None
    cost: NamedNumbers | None
    error: NamedNumbers | None
    sensitivity: dict[str, NamedNumbers | None]

    def as_dict(self) -> dict[str, Any]:
        """Return plain data. (`asdict` would copy every list of numbers.)"""
        return {
            **vars(self),
            "tensors": [vars(tensor) for tensor in self.tensors],
            "before": None if self.before is None else vars(self.before),
        }


def describe_nodes(graph: MaseGraph, results: ResultsByNode) -> list[PageNode]:
    """Describe all nodes of a graph, in its order."""
    metas = graph.annotated_metas()
    scopes = module_scopes(graph.fx_graph.nodes)
    positions = {meta.node: position for position, meta in enumerate(metas)}
    return [_describe_node(meta, scopes[meta.node], positions, results) for meta in metas]


def _describe_node(
    meta: NodeMeta, scope: ModuleScope, positions: Mapping[fx.Node, int], results: ResultsByNode
) -> PageNode:
    name, is_layer = meta.node.name, meta.node.op == "call_module"
    target = str(meta.node.target)
    original = results.original.get(name)
    outputs = list(meta.results.values())
    return PageNode(
        **vars(_node_formats(meta)),
        name=name,
        label=target.rpartition(".")[2] if is_layer else name,
        path=target if is_layer else ".".join(scope),
        scope=scope,
        kind=meta.node.op,
        op=meta.mase_op,
        target=type(meta.module).__name__ if is_layer else str(getattr(meta.node.target, "__name__", target)),
        settings={key: str(value) for key, value in meta.settings.items()},
        inputs=[positions[each] for each in meta.node.all_input_nodes],
        shape=list(outputs[0].shape) if outputs else None,
        quantizable=meta.quantizable,
        tensors=describe_tensors(meta, original, results.values),
        before=None if original is None else _original_node(original, results.cost_before.get(name)),
        cost=results.cost.get(name),
        error=results.error.get(name),
        sensitivity={"alone": results.alone.get(name), "all_but": results.all_but.get(name)},
    )


def _original_node(meta: NodeMeta, cost: NamedNumbers | None) -> OriginalNode:
    return OriginalNode(**vars(_node_formats(meta)), cost=cost)


def _node_formats(meta: NodeMeta) -> NodeFormats:
    weight, data = _first_format(meta, "weight"), _first_format(meta, "data_in")
    return NodeFormats(
        None if weight is None else format_name(weight),
        None if data is None else format_name(data),
        None if weight is None else weight.bits,
        None if data is None else data.bits,
    )


def _first_format(meta: NodeMeta, role: str) -> Format | None:
    """Return the format of the first operand with this role."""
    found = (meta.args[name].format for name, operand in meta.operands.items() if operand.role == role)
    return next(found, None)
