"""Correction of the mean error of each output in the bias of its layer."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from chop.ir import MaseGraph, NodeMeta
from chop.passes.base import PassResult, register_pass
from chop.passes.graph.transforms.low_bits.layers import (
    CalibrationArgs,
    FloatValues,
    change_layers,
    gain,
    set_parameters,
)
from chop.passes.graph.transforms.low_bits.walk import Walk
from chop.statistics.deviation import decibel


@register_pass("correct_bias", kind="transform")
def correct_bias_transform_pass(graph: MaseGraph, args: CalibrationArgs) -> PassResult:
    """Subtract from each bias the mean difference of the layer's output from that of the float model.

    Rounding shifts the mean of an output, and later layers add up these shifts (Nagel et al., ICCV 2019). A layer
    without a bias is given one. `info["layers"]` has the signal-to-noise ratio of each output in dB, compared with
    the float model, before and after.
    """
    return graph, change_layers(graph, args, "correct_bias", _correct)


def _correct(meta: NodeMeta, walk: Walk, in_float: FloatValues) -> dict[str, Any]:
    """Change the bias of one layer."""
    layer: Any = meta.module
    channel = 1 if meta.mase_op.startswith("conv") else -1
    shift, square, signal, rows = torch.zeros(()), 0.0, 0.0, 0
    for x, expected, mask in zip(walk.inputs(meta.node), in_float.outputs, walk.masks, strict=True):
        found, wanted = (_rows(y, channel, mask).double() for y in (layer(x), expected))
        shift = shift + (found - wanted).sum(0)
        square, signal = square + float((found - wanted).square().sum()), signal + float(wanted.square().sum())
        rows += len(found)
    before = decibel(signal, square)
    old = layer.bias
    bias = -shift / rows if old is None else old.detach().double() - shift / rows
    set_parameters(meta, {"bias": bias})
    new: Any = meta.module
    used = new.rounded("bias", new.bias.detach()).double()
    if old is not None:
        used = used - layer.rounded("bias", old.detach()).double()
    # The error around its mean stays; the mean becomes what is left after the bias is rounded.
    left = square - float(shift.square().sum()) / rows + rows * float((shift / rows + used).square().sum())
    if left > square:
        set_parameters(meta, {"bias": torch.zeros_like(bias) if old is None else old.detach()})
        left = square
    return {**gain(before, decibel(signal, left)), "rows": rows}


def _rows(y: Tensor, channel: int, mask: Tensor | None) -> Tensor:
    """Return an output as rows of channels, without padded tokens."""
    if channel == -1 and mask is not None and y.shape[:-1] == mask.shape:
        return y[mask.bool()]
    y = y.movedim(channel if y.dim() > 2 else -1, -1)
    return y.reshape(-1, y.shape[-1])
