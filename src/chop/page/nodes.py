"""What the page shows of each node."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from torch import fx

from chop.formats import Format
from chop.ir import MaseGraph, NodeMeta
from chop.page.measure import Measured
from chop.page.scopes import Scope, scopes_of
from chop.page.tensors import TensorView, format_name, tensors_of

Numbers = Mapping[str, Any]


@dataclass(frozen=True)
class Findings:
    """By node, what passes found."""

    measured: Measured
    before: Mapping[str, NodeMeta]
    """The nodes of the original graph."""
    cost: Mapping[str, Numbers]
    cost_before: Mapping[str, Numbers]
    error: Mapping[str, Numbers]
    alone: Mapping[str, Numbers]
    all_but: Mapping[str, Numbers]


@dataclass(frozen=True)
class Precision:
    """The formats of a node's weight and of its data."""

    weight_format: str | None
    data_format: str | None
    weight_bits: float | None
    data_bits: float | None


@dataclass(frozen=True)
class Before(Precision):
    """What a node was in the original graph."""

    cost: Numbers | None


@dataclass(frozen=True)
class NodeView(Precision):
    """One node of the page."""

    name: str
    label: str
    """Its name within its module."""
    path: str
    scope: Scope
    kind: str
    op: str
    target: str
    settings: dict[str, str]
    inputs: list[int]
    shape: list[int] | None
    quantizable: bool
    tensors: list[TensorView]
    before: Before | None
    cost: Numbers | None
    error: Numbers | None
    sensitivity: dict[str, Numbers | None]

    def as_dict(self) -> dict[str, Any]:
        """Plain data. (`asdict` would copy every list of numbers.)"""
        return {
            **vars(self),
            "tensors": [vars(tensor) for tensor in self.tensors],
            "before": None if self.before is None else vars(self.before),
        }


def nodes_of(graph: MaseGraph, findings: Findings) -> list[NodeView]:
    metas = graph.annotated_metas()
    scopes = scopes_of(graph.fx_graph.nodes)
    places = {meta.node: place for place, meta in enumerate(metas)}
    return [_node(meta, scopes[meta.node], places, findings) for meta in metas]


def _node(meta: NodeMeta, scope: Scope, places: Mapping[fx.Node, int], findings: Findings) -> NodeView:
    name, is_layer = meta.node.name, meta.node.op == "call_module"
    target = str(meta.node.target)
    was = findings.before.get(name)
    results = list(meta.results.values())
    return NodeView(
        **vars(_precision(meta)),
        name=name,
        label=target.rpartition(".")[2] if is_layer else name,
        path=target if is_layer else ".".join(scope),
        scope=scope,
        kind=meta.node.op,
        op=meta.mase_op,
        target=type(meta.module).__name__ if is_layer else str(getattr(meta.node.target, "__name__", target)),
        settings={key: str(value) for key, value in meta.settings.items()},
        inputs=[places[each] for each in meta.node.all_input_nodes],
        shape=list(results[0].shape) if results else None,
        quantizable=meta.quantizable,
        tensors=tensors_of(meta, was, findings.measured),
        before=None if was is None else Before(**vars(_precision(was)), cost=findings.cost_before.get(name)),
        cost=findings.cost.get(name),
        error=findings.error.get(name),
        sensitivity={"alone": findings.alone.get(name), "all_but": findings.all_but.get(name)},
    )


def _precision(meta: NodeMeta) -> Precision:
    weight, data = _format_of(meta, "weight"), _format_of(meta, "data_in")
    return Precision(
        None if weight is None else format_name(weight),
        None if data is None else format_name(data),
        None if weight is None else weight.bits,
        None if data is None else data.bits,
    )


def _format_of(meta: NodeMeta, role: str) -> Format | None:
    """The format of the first operand with this role."""
    found = (meta.args[name].format for name, operand in meta.operands.items() if operand.role == role)
    return next(found, None)
