"""Batch normalisation in evaluation mode is one factor and one summand per channel."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, fx

from chop.hardware.program.number_formats import has_signs
from chop.hardware.resolve.layers import replace_layer, with_parameters
from chop.ir import MaseGraph, NodeMeta
from chop.nn.quantized import QuantizedLayer, quantize_layer

NORMS = ("batch_norm1d", "batch_norm2d")
WEIGHTED = ("linear", "conv1d", "conv2d")


def fold_batch_norms(graph: MaseGraph) -> dict[str, str]:
    """Fold batch norms into the linear layer or convolution before them, or else after them.

    Returns, for each node that is gone, the node that computes its result now.
    """
    renamed: dict[str, str] = {}
    for meta in graph.annotated_metas():
        if meta.mase_op in NORMS and getattr(meta.module, "running_mean", None) is not None:
            partner = _fold_backward(meta) or _fold_forward(meta)
            if partner is not None:
                renamed[meta.node.name] = partner.name
                _remove(graph, meta, partner)
    return renamed


def make_affine(meta: NodeMeta) -> None:
    """Move the statistics of a batch norm into its weight and bias, so that it is `weight * x + bias`."""
    layer: Any = meta.module
    if layer.running_mean is None:
        raise ValueError(f"node '{meta.node.name}': hardware needs a batch norm with running statistics")
    factor, summand = factor_and_summand(layer)
    new: Any = with_parameters(
        layer,
        {
            "weight": factor,
            "bias": summand,
            "running_mean": torch.zeros_like(layer.running_mean),
            "running_var": torch.ones_like(layer.running_var),
        },
    )
    new.eps = 0.0
    replace_layer(meta, new)


def is_affine(layer: Any) -> bool:
    """Whether a batch norm computes `weight * x + bias`."""
    if layer.running_mean is None or layer.weight is None or layer.bias is None:
        return False
    return bool((layer.running_mean == 0).all()) and bool((layer.running_var + layer.eps == 1).all())


def factor_and_summand(layer: Any) -> tuple[Tensor, Tensor]:
    """Return what a batch norm multiplies each channel by, and what it adds, in float64."""
    weight, bias = _parameters(layer)
    factor = weight / (layer.running_var.double() + layer.eps).sqrt()
    return factor, bias - layer.running_mean.double() * factor


def _parameters(layer: Any) -> tuple[Any, Any]:
    """Return weight and bias in float64; the numbers 1 and 0 for those that a layer does not have."""
    given = ((layer.weight, 1.0), (layer.bias, 0.0))
    weight, bias = (default if value is None else value.detach().double() for value, default in given)
    return weight, bias


def _fold_backward(meta: NodeMeta) -> fx.Node | None:
    """Fold a batch norm into the layer that computes its input; return that layer's node, or None."""
    source = meta.node.args[0]
    if not isinstance(source, fx.Node) or len(source.users) != 1:
        return None
    other: NodeMeta = source.meta["mase"]
    if not _can_take(other, meta):
        return None
    weight, bias = _parameters(other.module)
    factor, summand = factor_and_summand(meta.module)
    factor_by_row = factor.reshape(-1, *(1,) * (weight.dim() - 1))
    _set_weights(other, meta, weight * factor_by_row, bias * factor + summand)
    return source


def _fold_forward(meta: NodeMeta) -> fx.Node | None:
    """Fold a batch norm into the only layer that reads its result; return that layer's node, or None."""
    if len(meta.node.users) != 1:
        return None
    user = next(iter(meta.node.users))
    other: NodeMeta = user.meta["mase"]
    if not _can_take(other, meta):
        return None
    layer: Any = other.module
    if other.mase_op != "linear" and (layer.groups != 1 or layer.padding not in ((0,), (0, 0))):
        return None  # padding with zeros would no longer be zeros
    weight, bias = _parameters(layer)
    factor, summand = factor_and_summand(meta.module)
    shape = (1, -1, *(1,) * (weight.dim() - 2))
    added = (weight * summand.reshape(shape)).flatten(1).sum(1)
    _set_weights(other, meta, weight * factor.reshape(shape), bias + added)
    _take_input_format(other, meta)
    return user


def _can_take(other: NodeMeta, norm: NodeMeta) -> bool:
    """Whether a node is a layer with weights of its own into which a batch norm can be folded."""
    if other.mase_op not in WEIGHTED or other.module is None or norm.module is None:
        return False
    if other.mase_op == "linear" and len(norm.args["data_in_0"].shape) != 2:
        return False
    calls = [node.target for node in norm.node.graph.nodes if node.op == "call_module"]
    if calls.count(other.node.target) != 1 or calls.count(norm.node.target) != 1:
        return False
    layer = other.module
    if not isinstance(layer, QuantizedLayer):
        return True
    # Whether its weights can be multiplied by factors and rounded again.
    scaled = any(layer.scale_of(name) is not None for name in layer.formats)
    return not scaled and not has_signs(layer.formats.get("weight")) and "data_out_0" not in layer.formats


def _set_weights(other: NodeMeta, norm: NodeMeta, weight: Tensor, bias: Tensor) -> None:
    """Give a layer the folded parameters; a new bias takes the format of the batch norm's."""
    layer = other.module
    assert layer is not None, "checked by _can_take"
    new = with_parameters(layer, {"weight": weight, "bias": bias})
    if isinstance(new, QuantizedLayer) and "bias" not in new.formats:
        quantized = norm.quantized
        given = quantized.formats if quantized is not None else {}
        new.formats["bias"] = given["bias"] if "bias" in given else new.formats["weight"]
    replace_layer(other, new)


def _take_input_format(other: NodeMeta, norm: NodeMeta) -> None:
    """Let a layer round its input as the batch norm did, whose input it reads now."""
    layer, quantized = other.module, norm.quantized
    if quantized is not None and "data_in_0" in quantized.formats and isinstance(layer, QuantizedLayer):
        formats = {**layer.formats, "data_in_0": quantized.formats["data_in_0"]}
        label = type(layer).__name__.removeprefix(layer.base_class.__name__)
        replace_layer(other, quantize_layer(layer, formats, label))


def _remove(graph: MaseGraph, norm: NodeMeta, partner: fx.Node) -> None:
    """Take a folded batch norm out of the graph."""
    node, source = norm.node, norm.node.args[0]
    assert isinstance(source, fx.Node), "a batch norm has an input"
    node.replace_all_uses_with(source)
    if source is not partner:  # it was folded into the layer after it
        meta: NodeMeta = partner.meta["mase"]
        meta.args["data_in_0"] = norm.args["data_in_0"]
        meta.note_formats()
    graph.fx_graph.erase_node(node)
    graph.model.delete_submodule(str(node.target))
