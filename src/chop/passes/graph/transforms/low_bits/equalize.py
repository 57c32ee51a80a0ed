"""Equal ranges of the weights of consecutive layers, channel by channel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from chop.ir import MaseGraph, NodeMeta
from chop.passes.base import PassResult, register_pass
from chop.passes.graph.transforms.low_bits.layers import set_parameters
from chop.passes.graph.transforms.low_bits.matrices import num_groups, weight_of
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
    layer: Any = meta.module
    num_inputs = weight_of(layer).shape[1] * num_groups(layer)
    return first if num_inputs == len(weight_of(first.module)) else None


def _equalize(first: NodeMeta, second: NodeMeta) -> float:
    """Scale the channels between two layers; return the largest change of a factor."""
    out = weight_of(first.module).abs().flatten(1).amax(1)
    layer: Any = second.module
    weight, groups = weight_of(layer), num_groups(layer)
    read = weight.abs().reshape(groups, len(weight) // groups, weight.shape[1], -1).amax((1, 3)).flatten()
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
    groups = num_groups(layer)
    shaped = factor.reshape(groups, 1, -1).expand(groups, len(weight) // groups, -1)
    shaped = shaped.reshape(len(weight), -1, *[1] * (weight.dim() - 2))
    set_parameters(meta, {"weight": weight * shaped})
