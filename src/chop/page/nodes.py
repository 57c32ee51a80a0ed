"""What the page shows about each node."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import takewhile
from typing import Any

from torch import fx

from chop.ir import MaseGraph, NodeMeta
from chop.page.facts import Info, PageFacts
from chop.page.tensor_values import TensorValues
from chop.page.tensors import describe_tensors, format_name

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


def _common_scope(scopes: Iterable[ModuleScope]) -> ModuleScope:
    """Return the path that all scopes start with."""
    same = takewhile(lambda names: len(set(names)) == 1, zip(*scopes, strict=False))
    return tuple(names[0] for names in same)


def describe_nodes(graph: MaseGraph, values: TensorValues, facts: PageFacts) -> list[dict[str, Any]]:
    """Return what the page shows about each node of a graph, in its order."""
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
) -> dict[str, Any]:
    name, is_layer = meta.node.name, meta.node.op == "call_module"
    target = str(meta.node.target)
    outputs = list(meta.results.values())

    def of_node(info: Info | None, key: str = "by_node") -> Mapping[str, Any] | None:
        return None if info is None else info.get(key, {}).get(name)

    return {
        **_formats(meta),
        "name": name,
        "label": target.rpartition(".")[2] if is_layer else name,  # within its module
        "path": target if is_layer else ".".join(scope),
        "scope": scope,
        "kind": meta.node.op,
        "op": meta.mase_op,
        "target": type(meta.module).__name__ if is_layer else str(getattr(meta.node.target, "__name__", target)),
        "settings": {key: str(value) for key, value in meta.settings.items()},
        "inputs": [positions[source] for source in meta.node.all_input_nodes],
        "shape": list(outputs[0].shape) if outputs else None,
        "quantizable": meta.quantizable,
        "tensors": describe_tensors(meta, original, values),
        "before": None if original is None else {**_formats(original), "cost": of_node(facts.cost_before)},
        "cost": of_node(facts.cost),
        "error": of_node(facts.comparison),
        "sensitivity": {key: of_node(facts.sensitivity, key) for key in ("alone", "all_but")},
    }


def _formats(meta: NodeMeta) -> dict[str, str | float | None]:
    """Return the formats of a node's weight and of its input, the first operands with these roles."""
    formats = {operand.role: meta.args[name].format for name, operand in reversed(meta.operands.items())}
    weight, data = formats.get("weight"), formats.get("data_in")
    return {
        "weight_format": None if weight is None else format_name(weight),
        "data_format": None if data is None else format_name(data),
        "bits_per_weight": None if weight is None else weight.bits,
        "bits_per_input": None if data is None else data.bits,
    }
