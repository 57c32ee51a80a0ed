"""Quantised graphs as files that other tools read, each proven by running it before it is kept."""

from chop.exporting.export import TARGETS, Exported, ExportOptions, export_graph
from chop.exporting.proof import Proof
from chop.exporting.safetensors_file import is_exported_graph, read_safetensors
from chop.exporting.safetensors_target import SafetensorsTarget

__all__ = [
    "TARGETS",
    "ExportOptions",
    "Exported",
    "Proof",
    "SafetensorsTarget",
    "export_graph",
    "is_exported_graph",
    "read_safetensors",
]
