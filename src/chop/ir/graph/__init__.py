"""MaseGraph and the metadata of its nodes."""

from chop.ir.graph.mase_graph import MaseGraph
from chop.ir.graph.meta import NodeMeta, TensorMeta

__all__ = ["MaseGraph", "NodeMeta", "TensorMeta"]
