"""Check that quantised operands hold only values of their formats."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor, fx

from chop.formats import Format
from chop.ir import MaseGraph, NodeMeta
from chop.ir.graph.interpreter import NodeInterpreter, annotated_inputs, bind_inputs, undisturbed
from chop.nn.quantized import QuantizedCall, QuantizedLayer
from chop.passes.base import PassResult, register_pass
from chop.statistics.deviation import Deviation


@dataclass(frozen=True)
class VerifyQuantizationArgs:
    """Arguments of `verify_quantization`."""

    dummy_in: Mapping[str, Any] | None = None
    """A batch to check activations with; None: the batch that the graph was annotated with."""


@register_pass("verify_quantization", kind="analysis", compare=True)
def verify_quantization_analysis_pass(graph: MaseGraph, args: VerifyQuantizationArgs) -> PassResult:
    """Check that each quantised operand holds only values of its format, or NaN, when the node computes with it.

    `info[node][operand]` has the `format`, and `max_error` and `sqnr_db` compared with the unrounded operand. A
    rounded result is listed as `data_out_0`. Raises an error for a value that the format cannot represent.
    """
    graph.annotated_metas()
    inputs = annotated_inputs(graph) if args.dummy_in is None else args.dummy_in
    checker = _Checker(graph.model)
    arguments = bind_inputs(graph, inputs)
    with undisturbed(graph.model):
        checker.run(*arguments)
    return graph, checker.found


@dataclass
class _CheckedFormat:
    """A format in a layer or call, with a check of everything that it rounds."""

    format: Format
    noted: Format
    """The format in the metadata."""
    report: dict[str, Any] | None = None
    off_grid: float | None = None

    def __call__(self, x: Tensor, scale: Tensor | None = None) -> Tensor:
        rounded = self.format(x, scale)
        self.check(x, rounded, scale)
        return rounded

    def rounds_rows_independently(self, x: Tensor) -> bool:
        return False  # so that all rows are checked together

    def check(self, original: Tensor, rounded: Tensor, scale: Tensor | None) -> None:
        # With a learned scale, a value is representable if rounding it again does not change it.
        on_grid = self.noted.contains(rounded) if scale is None else self.noted(rounded, scale) == rounded
        off_grid = rounded[~(on_grid | rounded.isnan())]
        if off_grid.numel():
            self.off_grid = off_grid[0].item()
        deviation = Deviation()
        deviation.add(original, rounded)
        self.report = {"format": self.noted, "max_error": deviation.max_error, "sqnr_db": deviation.sqnr_db}


class _Checker(NodeInterpreter):
    """An interpreter that checks everything that a format rounds."""

    def __init__(self, model: fx.GraphModule) -> None:
        super().__init__(model)
        self.found: dict[str, dict[str, Any]] = {}
        self.checked: dict[str, _CheckedFormat] = {}
        """The formats of the running node, by operand."""

    def before(self, node: fx.Node, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        meta: NodeMeta = node.meta["mase"]
        quantized = meta.quantized
        noted = meta.args | meta.results
        formats = quantized.formats if quantized is not None else {}
        self.checked = {
            name: _CheckedFormat(formats[name], noted[name].format) for name in formats if name in noted
        }

    def after(self, node: fx.Node, result: Any) -> None:
        for name, checked in self.checked.items():
            if checked.report is None:
                raise ValueError(f"node '{node.name}': '{name}' is not rounded to {checked.format}")
            if checked.off_grid is not None:
                raise ValueError(
                    f"node '{node.name}': '{name}' holds {checked.off_grid}, which {checked.noted} cannot represent"
                )
            self.found.setdefault(node.name, {})[name] = checked.report

    def call_function(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if isinstance(target, QuantizedCall):
            formats: Any = self.checked  # they have the interface of formats that a call uses
            target = dataclasses.replace(target, formats=formats)
        return super().call_function(target, args, kwargs)

    def call_module(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        layer = self.fetch_attr(target)
        if not isinstance(layer, QuantizedLayer):
            return super().call_module(target, args, kwargs)
        formats = layer.formats
        for name in self.checked.keys() & layer.parameter_names:
            used = layer.quantized(name)  # which may be cached rather than rounded now
            if used is not None:
                self.checked[name].check(layer.op.parameters_of(layer)[name], used, layer.scale_of(name))
        checked = {name: each for name, each in self.checked.items() if name not in layer.parameter_names}
        vars(layer)["formats"] = {**formats, **checked}
        try:
            return super().call_module(target, args, kwargs)
        finally:
            layer.formats = formats
