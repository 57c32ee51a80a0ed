"""Which layers of a graph read the same tensor, and which layer computes the input of another."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor, fx, nn

from chop.ir import MaseGraph, NodeMeta
from chop.nn.quantized import QuantizedLayer

SCALABLE = ("linear", "conv1d", "conv2d")
"""Layers whose outputs and inputs can be multiplied by a factor per channel in their weights."""
NORMS = ("layer_norm", "rms_norm", "batch_norm1d", "batch_norm2d")
_KEEPS_FACTORS = ("relu", "leaky_relu", "max_pool2d", "max_pool1d", "avg_pool2d", "adaptive_avg_pool2d")
"""Ops for which f(c x) is c f(x) if c is positive, for each channel."""
_KEEPS_ALL = ("dropout", "identity")
_ACTIVATIONS = (*_KEEPS_ALL, "relu", "leaky_relu", "gelu", "silu", "hardtanh", "sigmoid", "tanh")


def linear_layers(graph: MaseGraph) -> dict[fx.Node, list[NodeMeta]]:
    """Return linear layers by the node that they read; in a quantised graph, only those with a quantised weight."""
    metas = [meta for meta in graph.annotated_metas() if meta.mase_op == "linear" and has_own_layer(meta)]
    is_quantized = any(meta.quantized is not None for meta in graph.metas())
    found: dict[fx.Node, list[NodeMeta]] = {}
    for meta in metas:
        layer = meta.quantized
        if not is_quantized or (isinstance(layer, QuantizedLayer) and "weight" in layer.formats):
            found.setdefault(meta.node.all_input_nodes[0], []).append(meta)
    return found


def layer_before(node: fx.Node, *, scaling: bool) -> NodeMeta | None:
    """Return the layer with weights that alone computes the input of a node; None if there is none.

    Between them may be dropout, and with `scaling` (a factor per channel, above 0) also ReLU and pooling. With
    `scaling`, the layer may also be a normalisation with a weight.
    """
    passed = _KEEPS_ALL + _KEEPS_FACTORS if scaling else _KEEPS_ALL
    kinds = SCALABLE + NORMS if scaling else SCALABLE
    while node.all_input_nodes:
        node = node.all_input_nodes[0]
        meta: NodeMeta = node.meta["mase"]
        if meta.mase_op in kinds and has_own_layer(meta) and getattr(meta.module, "weight", None) is not None:
            rounds_result = meta.quantized is not None and "data_out_0" in meta.quantized.formats
            return None if rounds_result else meta
        if meta.mase_op not in passed or len(node.users) != 1 or meta.quantized is not None:
            return None
    return None


def activation_after(node: fx.Node, *, elementwise: bool = False) -> Callable[[Tensor], Tensor]:
    """Return what normalisations and activations do with the result of a layer before anything else reads it.

    With `elementwise`, only up to the first normalisation: the function then takes results of any shape.
    """
    kinds = _ACTIVATIONS if elementwise else NORMS + _ACTIVATIONS
    modules: list[nn.Module] = []
    while len(node.users) == 1:
        node = next(iter(node.users))
        meta: NodeMeta = node.meta["mase"]
        if meta.mase_op not in kinds or meta.module is None:
            break
        modules.append(meta.module)

    def run(x: Tensor) -> Tensor:
        for module in modules:
            x = module(x)
        return x

    return run


def has_own_layer(meta: NodeMeta) -> bool:
    """Whether a node calls a layer that no other node calls."""
    targets = [node.target for node in meta.node.graph.nodes if node.op == "call_module"]
    return meta.module is not None and targets.count(meta.node.target) == 1
