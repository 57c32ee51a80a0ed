"""What the page shows about each node."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from torch import fx

from chop.formats import Format
from chop.ir import MaseGraph, NodeMeta
from chop.page.facts import Info, PageFacts
from chop.page.tensor_values import TensorValues
from chop.page.tensors import PageTensor, describe_tensors, format_name

ModuleScope = tuple[str, ...]
"""The path of a module, such as `("blocks", "0")`."""


def module_scopes(nodes: Iterable[fx.Node]) -> dict[fx.Node, ModuleScope]:
    """Return, for each node, the module whose `forward` makes the call.

    torch.fx records it while tracing. In a graph that has lost the record, a function belongs to the innermost
    module that contains all of its inputs.
    """
    found: dict[fx.Node, ModuleScope] = {}
    for node in nodes:
        if node.op == "call_module":
            found[node] = tuple(str(node.target).split(".")[:-1])
        elif node.op in ("placeholder", "output"):
            found[node] = ()
        else:
            recorded = _recorded_scope(node)
            inputs = [found[each] for each in node.all_input_nodes]
            found[node] = _common_scope(inputs) if recorded is None else recorded
    return found


def _recorded_scope(node: fx.Node) -> ModuleScope | None:
    stack = node.meta.get("nn_module_stack")
    if not stack:
        return None
    path, _ = list(stack.values())[-1]
    return tuple(str(path).split(".")) if path else ()


def _common_scope(scopes: list[ModuleScope]) -> ModuleScope:
    """Return the path that all scopes start with."""
    if not scopes:
        return ()
    first, last = min(scopes), max(scopes)
    same = [a == b for a, b in zip(first, last, strict=False)]
    return first[: same.index(False) if False in same else len(same)]


NamedNumbers = Mapping[str, Any]


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


def describe_nodes(graph: MaseGraph, values: TensorValues, facts: PageFacts) -> list[PageNode]:
    """Describe all nodes of a graph, in its order."""
    metas = graph.annotated_metas()
    scopes = module_scopes(graph.fx_graph.nodes)
    positions = {meta.node: position for position, meta in enumerate(metas)}
    originals = (
        {} if facts.original is None else {meta.node.name: meta for meta in facts.original.annotated_metas()}
    )
    return [
        _describe_node(meta, originals.get(meta.node.name), scopes[meta.node], positions, values, facts)
        for meta in metas
    ]


def _describe_node(
    meta: NodeMeta,
    original: NodeMeta | None,
    scope: ModuleScope,
    positions: Mapping[fx.Node, int],
    values: TensorValues,
    facts: PageFacts,
) -> PageNode:
    name, is_layer = meta.node.name, meta.node.op == "call_module"
    target = str(meta.node.target)
    outputs = list(meta.results.values())

    def of_node(info: Info | None, key: str = "by_node") -> NamedNumbers | None:
        return None if info is None else info.get(key, {}).get(name)

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
        tensors=describe_tensors(meta, original, values),
        before=None if original is None else _original_node(original, of_node(facts.cost_before)),
        cost=of_node(facts.cost),
        error=of_node(facts.comparison),
        sensitivity={key: of_node(facts.sensitivity, key) for key in ("alone", "all_but")},
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
