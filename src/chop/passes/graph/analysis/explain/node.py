"""Explain one node or layer."""

from __future__ import annotations

import copy
import dataclasses
import sys
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor, fx, nn
from torch.utils import _pytree as pytree

from chop.cost import bitops, count, operations, weight_storage
from chop.formats import Format
from chop.formats.integer import Integer
from chop.ir import MaseGraph, NodeMeta
from chop.ir.graph.annotate import annotate
from chop.ir.graph.interpreter import (
    NodeInterpreter,
    annotated_inputs,
    bind_inputs,
    named_inputs,
    tensors_in,
    undisturbed,
)
from chop.nn.quantized import QuantizedCall, QuantizedLayer, plain_layer
from chop.ops import op_of_module
from chop.passes.base import DataArgs, PassResult, register_pass
from chop.passes.graph.analysis.explain.explanation import Cost, ExplainedTensor, Explanation
from chop.passes.quantization.suggest import WIDTHS, best_of_width, narrowest
from chop.registry import UnknownNameError, closest
from chop.statistics.batches import limited_batches, num_rows
from chop.statistics.deviation import Deviation
from chop.statistics.format_fit import FormatFitMeter

DEFAULT_DB = 30.0
"""The default SQNR that suggested formats reach."""
OUTPUT = "data_out_0"


Observed = tuple[list[int], FormatFitMeter | None]
"""The shape of a tensor in the annotating run, which the cost refers to, and its meter; None for integers."""


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


class NodeObserver(NodeInterpreter):
    """An interpreter that observes the inputs, results and parameters of one node."""

    def __init__(self, model: fx.GraphModule, meta: NodeMeta) -> None:
        super().__init__(model)
        self.meta = meta
        quantized = meta.quantized
        self.formats: Mapping[str, Format] = quantized.formats if quantized is not None else {}
        self.plain: Callable[..., Any] | None = None
        if quantized is not None:
            self.plain = quantized.function if isinstance(quantized, QuantizedCall) else plain_layer(quantized)
        self.unrounded = _without_output_format(quantized) if quantized and OUTPUT in self.formats else None
        self.operands: dict[str, Observed] = {}
        self.results: dict[str, Observed] = {}
        self.expected: Any = None
        self.deviation: Deviation | None = None
        if meta.op is not None and meta.module is not None:
            for name, value in meta.op.parameters_of(meta.module).items():
                self._observe(self.operands, name, value.detach())

    def before(self, node: fx.Node, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if node is not self.meta.node:
            return
        for name, value in named_inputs(self.meta, args, kwargs).items():
            self._observe(self.operands, name, value)
        if self.unrounded is not None:
            for tensor in tensors_in(_called(self.unrounded, args, kwargs))[:1]:
                self._observe(self.results, OUTPUT, tensor)
        if self.plain is not None:
            self.expected = _called(self.plain, args, kwargs)

    def after(self, node: fx.Node, result: Any) -> None:
        if node is not self.meta.node:
            return
        for i, tensor in enumerate(tensors_in(result)):
            if i > 0 or self.unrounded is None:
                self._observe(self.results, f"data_out_{i}", tensor)
        if self.plain is not None:
            self.deviation = self.deviation or Deviation()
            self.deviation.add(self.expected, result)

    def explanation(self, cost: Cost | None, num_samples: int, sqnr_db: float) -> Explanation:
        """Return the explanation of the node from everything observed."""
        meta = self.meta
        target = meta.node.target if meta.module is None else type(meta.module)
        order = [operand.name for operand in meta.op.operands] if meta.op is not None else []
        names = sorted(self.operands, key=lambda name: order.index(name) if name in order else len(order))
        return Explanation(
            name=meta.node.name,
            op=meta.mase_op,
            calls=target if isinstance(target, str) else target.__name__,
            operands={name: self._explained(name, self.operands[name], sqnr_db) for name in names},
            results={name: self._explained(name, observed, sqnr_db) for name, observed in self.results.items()},
            result_db=None if self.deviation is None else self.deviation.sqnr_db,
            cost=cost,
            num_samples=num_samples,
            target_db=sqnr_db,
        )

    def _observe(self, tensors: dict[str, Observed], name: str, value: Tensor) -> None:
        if name not in tensors:
            is_float = value.is_floating_point()
            meter = FormatFitMeter(self.formats.get(name), self.meta.scale_of(name)) if is_float else None
            noted = self.meta.args.get(name) or self.meta.results.get(name)
            tensors[name] = list(value.shape) if noted is None else noted.shape, meter
        _, meter = tensors[name]
        if meter is not None:
            meter.add(value)

    def _explained(self, name: str, observed: Observed, sqnr_db: float) -> ExplainedTensor:
        shape, meter = observed
        number_format, role = self.formats.get(name), self._role(name)
        measured = None if meter is None else meter.read()
        if role is None or meter is None:
            return ExplainedTensor(role, shape, number_format, measured)
        values = meter.sample
        is_signed = number_format.is_signed if isinstance(number_format, Integer) else True
        width = 0 if number_format is None else number_format.width
        same = best_of_width(values, width, is_signed) if width in WIDTHS else None
        least = narrowest(values, sqnr_db, is_signed)
        return ExplainedTensor(role, shape, number_format, measured, same, least)

    def _role(self, name: str) -> str | None:
        if name == OUTPUT:
            return "data_out" if name in self.formats else None
        operand = None if self.meta.op is None else self.meta.op.operand(name)
        return None if operand is None else operand.role


def _called(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Return the result of a call on copies of its arguments, because it may write into them."""
    own_args, own_kwargs = pytree.tree_map_only(Tensor, Tensor.clone, (args, kwargs))
    return function(*own_args, **own_kwargs)


def _without_output_format(quantized: QuantizedLayer | QuantizedCall) -> Callable[..., Any]:
    """Return the same layer or call without rounding of its result."""
    formats = {name: each for name, each in quantized.formats.items() if name != OUTPUT}
    if isinstance(quantized, QuantizedCall):
        return dataclasses.replace(quantized, formats=formats)
    layer: QuantizedLayer = copy.copy(quantized)
    layer.formats = formats
    return layer
