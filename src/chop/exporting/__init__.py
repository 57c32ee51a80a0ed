"""Quantised graphs as files that other tools read, each proven by running it before it is kept."""

from chop.exporting.export import TARGETS, Exported, export_graph, file_name
from chop.exporting.onnx_target import OnnxTarget
from chop.exporting.proof import Proof
from chop.exporting.qonnx_target import QONNXTarget
from chop.exporting.safetensors_target import SafetensorsTarget

__all__ = [
    "TARGETS",
    "Exported",
    "OnnxTarget",
    "Proof",
    "QONNXTarget",
    "SafetensorsTarget",
    "export_graph",
    "file_name",
]
