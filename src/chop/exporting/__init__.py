"""Quantised graphs as files that other tools read, each proven by running it before it is kept."""

from chop.exporting.comparison import Comparison
from chop.exporting.export import TARGETS, Exported, ExportOptions, export_graph
from chop.exporting.safetensors_file import is_exported_graph, read_safetensors
from chop.exporting.safetensors_target import SafetensorsTarget

__all__ = [
    "TARGETS",
    "Comparison",
    "ExportOptions",
    "Exported",
    "SafetensorsTarget",
    "export_graph",
    "is_exported_graph",
    "read_safetensors",
]
