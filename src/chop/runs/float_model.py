"""A quantised graph in float: the model that it is compared with."""

from __future__ import annotations

import copy

from torch import fx, nn

from chop.ir import MaseGraph
from chop.ir.graph.storage.nodes import plain_call
from chop.nn.quantized import QuantizedCall, QuantizedLayer, plain_layer


def is_quantized(model: nn.Module) -> bool:
    """Whether a layer or a call of a model has number formats."""
    calls = model.graph.nodes if isinstance(model, fx.GraphModule) else ()
    layers = any(isinstance(layer, QuantizedLayer) for layer in model.modules())
    return layers or any(isinstance(node.target, QuantizedCall) for node in calls)


def without_formats(graph: MaseGraph) -> fx.GraphModule | None:
    """Return a copy of a graph's model with everything in float; None if it is not quantised."""
    if all(meta.quantized is None for meta in graph.metas()):
        return None
    plain = copy.deepcopy(graph)
    for meta in plain.metas():
        quantized, node = meta.quantized, meta.node
        if isinstance(quantized, QuantizedLayer):
            plain.model.set_submodule(str(node.target), plain_layer(quantized))
        else:
            node.op, node.target = plain_call(node.op, node.target)
    plain.model.recompile()
    return plain.model
