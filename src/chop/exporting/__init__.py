"""Quantised graphs as files that other tools read, each proven by running it before it is kept."""

from chop.exporting.export import TARGETS, Exported, ExportOptions, export_graph
from chop.exporting.onnx_target import OnnxTarget
from chop.exporting.proof import Proof
from chop.exporting.qonnx_target import QONNXTarget
from chop.exporting.safetensors_file import is_exported_graph, read_safetensors
from chop.exporting.safetensors_target import SafetensorsTarget

__all__ = [
    "TARGETS",
    "ExportOptions",
    "Exported",
    "OnnxTarget",
    "Proof",
    "QONNXTarget",
    "SafetensorsTarget",
    "export_graph",
    "is_exported_graph",
    "read_safetensors",
]
