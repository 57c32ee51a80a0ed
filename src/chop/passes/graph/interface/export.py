"""Write a graph as a file for other tools."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from chop.exporting import ExportOptions, export_graph
from chop.ir import MaseGraph
from chop.ir.graph.interpreter import annotated_inputs
from chop.passes.base import PassResult, register_pass
from chop.statistics.batches import limited_batches


@dataclass(frozen=True, kw_only=True)
class ExportArgs:
    """Where to write, and what the file is compared on."""

    path: Path
    """The file to write."""
    input_generator: Iterable[Mapping[str, Any]] | None = None
    """Batches on which the file and the graph are compared; by default the one that the graph is annotated with."""
    num_samples: int = 1000
    """The largest number of rows to compare."""


@dataclass(frozen=True, kw_only=True)
class ExportOnnxArgs(ExportArgs):
    """Where to write, what the file is compared on, and its opset."""

    opset: int | None = None
    """The opset of the file; None: the smallest that has all types."""


@register_pass("export_onnx", kind="interface", keeps_weights=True)
def export_onnx_interface_pass(graph: MaseGraph, args: ExportOnnxArgs) -> PassResult:
    """Write an ONNX file with QuantizeLinear and DequantizeLinear, and weights in their narrow types."""
    return graph, _export(graph, args, "onnx", ExportOptions(args.opset))


@register_pass("export_qonnx", kind="interface", keeps_weights=True)
def export_qonnx_interface_pass(graph: MaseGraph, args: ExportOnnxArgs) -> PassResult:
    """Write an ONNX file with the quantisers of QONNX: IntQuant for integers, FloatQuant for small floats."""
    return graph, _export(graph, args, "qonnx", ExportOptions(args.opset))


@register_pass("export_safetensors", kind="interface", keeps_weights=True)
def export_safetensors_interface_pass(graph: MaseGraph, args: ExportArgs) -> PassResult:
    """Write the codes of all weights packed to their width, with scales and formats; `ch test --load` reads it."""
    return graph, _export(graph, args, "safetensors", ExportOptions())


def _export(graph: MaseGraph, args: ExportArgs, target: str, options: ExportOptions) -> dict[str, Any]:
    given = [annotated_inputs(graph)] if args.input_generator is None else args.input_generator
    exported = export_graph(graph, args.path, target, limited_batches(given, args.num_samples), options)
    return {**exported.as_dict(), "proof": str(exported.proof)}
