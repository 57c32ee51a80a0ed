"""Explain one node or layer."""

from __future__ import annotations

import sys
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from chop.cost import bitops, count, operations, weight_storage
from chop.ir import MaseGraph, NodeMeta
from chop.ir.graph.annotate import annotate
from chop.ir.graph.interpreter import annotated_inputs, bind_inputs, undisturbed
from chop.nn.quantized import QuantizedLayer
from chop.ops import op_of_module
from chop.passes.base import DataArgs, PassResult, register_pass
from chop.passes.graph.analysis.explain.explanation import Cost, Explanation
from chop.passes.graph.analysis.explain.node_observer import NodeObserver
from chop.registry import UnknownNameError, closest
from chop.statistics.batches import limited_batches, num_rows

DEFAULT_DB = 30.0
"""The default SQNR that suggested formats reach."""


@dataclass(frozen=True, kw_only=True)
class ExplainArgs(DataArgs):
    """Arguments of `explain`."""

    node: str
    """The name of the node, or the path of the layer that it calls."""
    dummy_in: Mapping[str, Any] | None = None
    """A batch by argument name, instead of `input_generator`; without both: what the graph was annotated with."""
    sqnr_db: float = DEFAULT_DB
    """The signal-to-quantisation-noise ratio in dB that suggested formats reach."""


@register_pass("explain", kind="analysis")
def explain_analysis_pass(graph: MaseGraph, args: ExplainArgs) -> PassResult:
    """Explain one node: how well the values of its tensors fit their formats, better formats, and its cost.

    `info` has `op`, `operands`, `results`, `cost` and `words`; `explain_node` returns the same, ready to print.
    """
    batches, num_samples = args.input_generator, args.num_samples if args.input_generator is not None else None
    if args.dummy_in is not None:
        batches, num_samples = [args.dummy_in], None
    return graph, explain_node(graph, args.node, batches, num_samples, args.sqnr_db).as_dict()


def explain_node(
    graph: MaseGraph,
    name: str,
    batches: Iterable[Mapping[str, Any]] | None = None,
    num_samples: int | None = None,
    sqnr_db: float = DEFAULT_DB,
) -> Explanation:
    """Explain one node of an annotated graph, from `batches` or else from the batch of the annotating run.

    `name` may also be the path of the layer that it calls. Without `num_samples`, all rows are run.
    """
    metas = graph.annotated_metas()
    meta = _find(metas, name)
    given = [annotated_inputs(graph)] if batches is None else batches
    limit = sys.maxsize if num_samples is None else num_samples
    num_done = 0
    with undisturbed(graph.model):
        observer = NodeObserver(graph.model, meta)  # inside, because it copies layers with their current mode
        for batch in limited_batches(given, limit):
            observer.run(*bind_inputs(graph, batch))
            num_done += num_rows(batch)
    counted = count(meta)
    weights = weight_storage([*(other for other in metas if other.node.op == "get_attr"), meta])
    macs = None if counted is None else counted.macs
    cost = Cost(macs, operations(meta, "flops"), bitops(meta, "bops"), weights.elements, weights.bits)
    return observer.explanation(cost, num_done, sqnr_db)


def explain(layer: nn.Module, x: Tensor | None = None, sqnr_db: float = DEFAULT_DB) -> Explanation:
    """Explain one layer, quantised or not; without an input `x`, only its parameters."""
    if op_of_module(layer.base_class if isinstance(layer, QuantizedLayer) else type(layer)) is None:
        raise ValueError(
            f"{type(layer).__name__} is not a layer of the op table; use explain_node for nodes of a graph"
        )
    graph = MaseGraph(nn.Sequential(OrderedDict(layer=layer)))
    for node in graph.fx_graph.nodes:
        node.meta["mase"] = NodeMeta(node)
    meta = _find(graph.metas(), "layer")
    if x is not None:
        annotate(graph, {"input": x}, keep_values=True)
        return explain_node(graph, "layer", sqnr_db=sqnr_db)
    meta.op = meta.find_op()
    return NodeObserver(graph.model, meta).explanation(None, 0, sqnr_db)


def _find(metas: Iterable[NodeMeta], name: str) -> NodeMeta:
    names = {meta.node.name: meta for meta in metas}
    paths = {str(meta.node.target): meta for meta in names.values() if meta.node.op == "call_module"}
    found = names.get(name) or paths.get(name)
    if found is None:
        raise UnknownNameError(f"there is no node '{name}' in the graph; {closest(name, names)}")
    return found
