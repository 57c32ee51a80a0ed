"""Observation of the tensors of one node while batches run through the graph."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from torch import Tensor, fx
from torch.utils import _pytree as pytree

from chop.formats import Format
from chop.formats.integer import Integer
from chop.ir import NodeMeta
from chop.ir.graph.interpreter import NodeInterpreter, named_inputs, tensors_in
from chop.nn.quantized import QuantizedCall, QuantizedLayer, plain_layer
from chop.passes.graph.analysis.explain.explanation import Cost, ExplainedTensor, Explanation
from chop.passes.quantization.suggest import WIDTHS, best_of_width, narrowest
from chop.statistics.deviation import Deviation
from chop.statistics.format_fit import FormatFitMeter

OUTPUT = "data_out_0"


Observed = tuple[list[int], FormatFitMeter | None]
"""The shape of a tensor in the annotating run, which the cost refers to, and its meter; None for integers."""


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
        operand = self.meta.op.operand(name) if self.meta.op is not None else None
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
