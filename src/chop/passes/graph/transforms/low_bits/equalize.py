"""Equal ranges of the weights of consecutive layers, channel by channel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from chop.ir import MaseGraph, NodeMeta
from chop.passes.base import PassResult, register_pass
from chop.passes.graph.transforms.low_bits.layers import set_parameters
from chop.passes.graph.transforms.low_bits.matrices import weight_of
from chop.passes.graph.transforms.low_bits.neighbours import SCALABLE, has_own_layer, layer_before


@dataclass(frozen=True)
class EqualizeArgs:
    """Arguments of `equalize`."""

    iterations: int = 20
    """How often all pairs of layers are equalised; it ends earlier if nothing changes."""
    tolerance: float = 1e-3
    """The relative change of a factor below which nothing changes."""


@register_pass("equalize", kind="transform")
def equalize_transform_pass(graph: MaseGraph, args: EqualizeArgs) -> PassResult:
    """Scale the channels between two layers such that both have weights of the same range for each channel.

    For formats with one scale for all channels. Without rounding the results stay the same (Nagel et al., ICCV
    2019): a ReLU between the layers keeps positive factors. `info["pairs"]` has the first layer of each second one.
    """
    pairs = [(first, meta) for meta in graph.annotated_metas() if (first := _first(meta)) is not None]
    for _ in range(args.iterations):
        changes = [_equalize(first, second) for first, second in pairs]
        if all(change < args.tolerance for change in changes):
            break
    return graph, {"pairs": {second.node.name: first.node.name for first, second in pairs}}


def _first(meta: NodeMeta) -> NodeMeta | None:
    """Return the layer whose channels a layer shares alone; None if there is none."""
    if meta.mase_op not in SCALABLE or not has_own_layer(meta):
        return None
    first = layer_before(meta.node, scaling=True)
    if first is None or first.mase_op not in SCALABLE or len(first.node.users) != 1:
        return None
    return first if input_channels(meta.module) == weight_of(first.module).shape[0] else None


def _equalize(first: NodeMeta, second: NodeMeta) -> float:
    """Scale the channels between two layers; return the largest change of a factor."""
    out = weight_of(first.module).abs().flatten(1).amax(1)
    read = channels_first(second.module, weight_of(second.module)).abs().flatten(1).amax(1)
    factor = torch.where((out > 0) & (read > 0), (read / out).sqrt(), 1.0)
    scale_outputs(first, factor)
    scale_inputs(second, 1 / factor)
    return float((factor - 1).abs().max())


def scale_outputs(meta: NodeMeta, factor: Tensor) -> None:
    """Multiply each output channel of a layer, or of a normalisation, by a factor."""
    layer: Any = meta.module
    weight = weight_of(layer)
    values = {"weight": weight * factor.reshape(-1, *[1] * (weight.dim() - 1))}
    if getattr(layer, "bias", None) is not None:
        values["bias"] = layer.bias.detach() * factor
    set_parameters(meta, values)


def scale_inputs(meta: NodeMeta, factor: Tensor) -> None:
    """Multiply the weights of each input channel of a layer by a factor."""
    layer: Any = meta.module
    weight = weight_of(layer)
    groups = getattr(layer, "groups", 1)
    if groups == 1:
        shaped = factor.reshape(1, -1, *[1] * (weight.dim() - 2))
    else:
        shaped = factor.reshape(groups, 1, -1).expand(groups, weight.shape[0] // groups, -1)
        shaped = shaped.reshape(weight.shape[0], -1, *[1] * (weight.dim() - 2))
    set_parameters(meta, {"weight": weight * shaped})


def channels_first(layer: Any, weight: Tensor) -> Tensor:
    """Return the weights of a layer by input channel."""
    groups = getattr(layer, "groups", 1)
    parts = weight.reshape(groups, weight.shape[0] // groups, weight.shape[1], -1)
    return parts.transpose(1, 2).reshape(groups * weight.shape[1], -1)


def input_channels(layer: Any) -> int:
    """Return the number of channels that a layer reads."""
    return int(layer.weight.shape[1] * getattr(layer, "groups", 1))
