"""The table from ops to ONNX nodes: one function per op, in files by kind of op."""

from chop.exporting.onnx_graph.lowering import (
    activation,
    arithmetic,
    attention,
    convolution,
    matmul,
    movement,
    normalization,
    pooling,
    recurrent,
    reduction,
    resizing,
    shapes,
)
from chop.exporting.onnx_graph.lowering.table import LOWERINGS, Lowered

__all__ = [
    "LOWERINGS",
    "Lowered",
    "activation",
    "arithmetic",
    "attention",
    "convolution",
    "matmul",
    "movement",
    "normalization",
    "pooling",
    "recurrent",
    "reduction",
    "resizing",
    "shapes",
]
