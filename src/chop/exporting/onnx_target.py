"""The target `onnx`: weights in narrow types, with QuantizeLinear and DequantizeLinear."""

from __future__ import annotations

import json
from pathlib import Path

from chop.config import ExportOptions
from chop.exporting.export import TARGETS
from chop.exporting.onnx_engines import OnnxEngine
from chop.exporting.onnx_file import choose_opset, make_model
from chop.exporting.onnx_graph.biases import widen_biases
from chop.exporting.onnx_graph.lower import lower
from chop.exporting.onnx_graph.qdq import QDQ
from chop.exporting.proof import Batch, Engine
from chop.ir import MaseGraph


class OnnxTarget:
    """ONNX with QuantizeLinear and DequantizeLinear, run by onnxruntime or the reference evaluator."""

    suffix = ".onnx"

    def write(self, graph: MaseGraph, path: Path, batch: Batch, options: ExportOptions) -> Engine:
        """Write the file, and return the engine that runs it."""
        metadata = {"chop.formats": json.dumps(formats_of(graph))}
        for zero_points in (True, False):
            lowered = lower(graph, batch, QDQ(zero_points))
            widen_biases(lowered.builder)
            opset = choose_opset(lowered, options.opset)
            model = make_model(lowered, opset, metadata)
            engine = OnnxEngine(lowered, model, opset)
            if engine.runs_by_default(batch):
                break
        path.write_bytes(model.SerializeToString())
        return engine


def formats_of(graph: MaseGraph) -> dict[str, dict[str, str]]:
    """Return the number formats of each node as text: a type of ONNX may be wider than the format."""
    found = {}
    for meta in graph.metas():
        if meta.quantized is not None:
            found[meta.node.name] = {name: str(each) for name, each in meta.quantized.formats.items()}
    return found


TARGETS.add("onnx", OnnxTarget())
