"""Quantisation of graphs."""

from chop.passes.graph.transforms.quantize.quantize import quantize_transform_pass

__all__ = ["quantize_transform_pass"]
