"""Are the weights really quantised?"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor, fx

from chop.formats import Format
from chop.ir import MaseGraph, NodeMeta
from chop.ir.graph.interpreter import Runner, bind_inputs, noted_inputs, undisturbed
from chop.nn.quantized import QuantizedCall, QuantizedLayer
from chop.passes.base import PassResult, register_pass
from chop.statistics.deviation import Deviation


@dataclass(frozen=True)
class VerifyQuantizationArgs:
    dummy_in: Mapping[str, Any] | None = None
    """A batch to look at activations with; without one, that of the annotating run is used."""


@register_pass("verify_quantization", kind="analysis")
def verify_quantization_analysis_pass(graph: MaseGraph, args: VerifyQuantizationArgs) -> PassResult:
    """Checks that each quantised operand, as it is computed with, holds only numbers of its format (or NaN).

    `info[node][operand]` has the `format` and the error against the original, `max_error` and `sqnr_db`; a result
    that is rounded is an operand as well, `data_out_0`. Raises where a value is off the grid.
    """
    graph.annotated_metas()
    inputs = noted_inputs(graph) if args.dummy_in is None else args.dummy_in
    checker = _Checker(graph.model)
    arguments = bind_inputs(graph, inputs)
    with undisturbed(graph.model):
        checker.run(*arguments)
    return graph, checker.found


@dataclass
class _Watched:
    """A format in its place in a layer or call, which looks at all that it rounds."""

    format: Format
    noted: Format
    """The format that the metadata claims."""
    report: dict[str, Any] | None = None
    off_grid: float | None = None

    def __call__(self, x: Tensor, scale: Tensor | None = None) -> Tensor:
        rounded = self.format(x, scale)
        self.look(x, rounded, scale)
        return rounded

    def rounds_rows_apart(self, x: Tensor) -> bool:
        return False  # all rows are looked at together

    def look(self, original: Tensor, rounded: Tensor, scale: Tensor | None) -> None:
        # With a scale of its own, a number is on the grid if rounding it once more leaves it there.
        on_grid = self.noted.contains(rounded) if scale is None else self.noted(rounded, scale) == rounded
        off_grid = rounded[~(on_grid | rounded.isnan())]
        if off_grid.numel():
            self.off_grid = off_grid[0].item()
        deviation = Deviation()
        deviation.add(original, rounded)
        self.report = {
            "format": self.noted,
            "max_error": deviation.max_error,
            "sqnr_db": deviation.sqnr_db,
        }


class _Checker(Runner):
    """Runs the graph with a watch on every format."""

    def __init__(self, model: fx.GraphModule) -> None:
        super().__init__(model)
        self.found: dict[str, dict[str, Any]] = {}
        self.watched: dict[str, _Watched] = {}
        """Of the node that is running, by operand."""

    def before(self, node: fx.Node, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        meta: NodeMeta = node.meta["mase"]
        quantized = meta.quantized
        noted = meta.args | meta.results
        formats = quantized.formats if quantized is not None else {}
        self.watched = {name: _Watched(formats[name], noted[name].format) for name in formats if name in noted}

    def after(self, node: fx.Node, result: Any) -> None:
        for name, watched in self.watched.items():
            if watched.report is None:
                raise ValueError(f"node '{node.name}': '{name}' is not rounded to {watched.format}")
            if watched.off_grid is not None:
                raise ValueError(
                    f"node '{node.name}': '{name}' holds {watched.off_grid}, which is not in {watched.noted}"
                )
            self.found.setdefault(node.name, {})[name] = watched.report

    def call_function(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if isinstance(target, QuantizedCall):
            formats: Any = self.watched  # which take the place of formats
            target = dataclasses.replace(target, formats=formats)
        return super().call_function(target, args, kwargs)

    def call_module(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        layer = self.fetch_attr(target)
        if not isinstance(layer, QuantizedLayer):
            return super().call_module(target, args, kwargs)
        formats = layer.formats
        for name in self.watched.keys() & layer.held:
            used = layer.quantized(name)  # as it may be remembered, rather than rounded now
            if used is not None:
                self.watched[name].look(getattr(layer, name), used, getattr(layer, f"{name}_scale", None))
        watched = {name: watch for name, watch in self.watched.items() if name not in layer.held}
        vars(layer)["formats"] = {**formats, **watched}
        try:
            return super().call_module(target, args, kwargs)
        finally:
            layer.formats = formats
