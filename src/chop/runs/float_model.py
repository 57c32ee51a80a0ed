"""A quantised graph in float: the model that it is compared with."""

from __future__ import annotations

from torch import fx

from chop.ir import MaseGraph
from chop.ir.graph.storage.nodes import plain_call
from chop.nn.quantized import QuantizedLayer, plain_layer
from chop.passes.graph.utils import deepcopy_mase_graph


def without_formats(graph: MaseGraph) -> fx.GraphModule | None:
    """Return a copy of a graph's model with everything in float; None if it is not quantised."""
    if all(meta.quantized is None for meta in graph.metas()):
        return None
    plain = deepcopy_mase_graph(graph)
    for meta in plain.metas():
        quantized, node = meta.quantized, meta.node
        if isinstance(quantized, QuantizedLayer):
            plain.model.set_submodule(str(node.target), plain_layer(quantized))
        else:
            node.op, node.target = plain_call(node.op, node.target)
    plain.model.recompile()
    return plain.model
