"""Passes that change the graph."""

from chop.passes.graph.transforms.quantize import quantize_transform_pass

__all__ = ["quantize_transform_pass"]
