"""The annotated graph."""

from chop.ir.graph.mase_graph import MaseGraph
from chop.ir.graph.meta import NodeMeta, TensorMeta

__all__ = ["MaseGraph", "NodeMeta", "TensorMeta"]
