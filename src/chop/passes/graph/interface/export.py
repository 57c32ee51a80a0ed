"""Write a graph as a file for other tools."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from chop.config import ExportOptions, option
from chop.ir import MaseGraph
from chop.ir.graph.interpreter import example_inputs
from chop.passes.base import BatchArgs, PassResult, register_pass


@dataclass(frozen=True, kw_only=True)
class ExportArgs(BatchArgs, ExportOptions):
    """Where to write, and what the file is compared on: by default the batch that the graph is annotated with."""

    path: Path = option(help="file to write")


@register_pass("export_onnx", kind="interface", keeps_weights=True)
def export_onnx_interface_pass(graph: MaseGraph, args: ExportArgs) -> PassResult:
    """Write an ONNX file with QuantizeLinear and DequantizeLinear, and weights in their narrow types."""
    return graph, _export(graph, args, "onnx")


@register_pass("export_qonnx", kind="interface", keeps_weights=True)
def export_qonnx_interface_pass(graph: MaseGraph, args: ExportArgs) -> PassResult:
    """Write an ONNX file with the quantisers of QONNX: IntQuant for integers, FloatQuant for small floats."""
    return graph, _export(graph, args, "qonnx")


@register_pass("export_safetensors", kind="interface", keeps_weights=True)
def export_safetensors_interface_pass(graph: MaseGraph, args: ExportArgs) -> PassResult:
    """Write the codes of all weights packed to their width, with scales and formats; `ch test --load` reads it."""
    return graph, _export(graph, args, "safetensors")


def _export(graph: MaseGraph, args: ExportArgs, target: str) -> dict[str, Any]:
    from chop.exporting import export_graph  # here, because only exports need the writers of files

    given = [example_inputs(graph, "input_generator")] if args.input_generator is None else args.input_generator
    exported = export_graph(graph, args.path, target, given, args)
    return {**exported.as_dict(), "proof": str(exported.proof)}
