"""Quantisation of graphs."""

from chop.passes.graph.transforms.quantize.quantize import quantize_transform_pass
from chop.passes.graph.transforms.quantize.summary import summarize_quantization_analysis_pass

__all__ = ["quantize_transform_pass", "summarize_quantization_analysis_pass"]
