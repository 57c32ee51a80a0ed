"""Passes that change the graph."""

from chop.passes.graph.transforms.quantize import (
    quantize_transform_pass,
    summarize_quantization_analysis_pass,
)

__all__ = [
    "quantize_transform_pass",
    "summarize_quantization_analysis_pass",
]
