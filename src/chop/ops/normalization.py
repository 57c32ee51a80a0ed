"""Normalisation ops: batch and layer normalisation, softmax."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from chop.ops.base import Call, Count, Op, Operand, Shape, numel
from chop.ops.table import register_op


def _batch_norm_count(call: Call) -> Count:
    # Subtract the mean and divide by the deviation; then scale and shift, if there are weight and bias.
    steps = 2 + ("weight" in call.operands) + ("bias" in call.operands)
    return Count(multiplies=steps * numel(call.results[0]))


def _batch_norm(
    layer: nn.BatchNorm1d | nn.BatchNorm2d, x: Tensor, weight: Tensor | None, bias: Tensor | None
) -> Tensor:
    layer._check_input_dim(x)
    momentum = layer.momentum
    tracked = layer.num_batches_tracked
    if layer.training and layer.track_running_stats and tracked is not None:
        tracked.add_(1)
        if momentum is None:  # a plain average over all batches
            momentum = 1.0 / float(tracked)
    use_batch = layer.training or layer.running_mean is None
    keeps_statistics = not layer.training or layer.track_running_stats
    return F.batch_norm(
        x,
        layer.running_mean if keeps_statistics else None,
        layer.running_var if keeps_statistics else None,
        weight,
        bias,
        use_batch,
        0.0 if momentum is None else momentum,
        layer.eps,
    )


for _name, _module in (("batch_norm1d", nn.BatchNorm1d), ("batch_norm2d", nn.BatchNorm2d)):
    register_op(
        Op(
            _name,
            "module",
            operands=(
                Operand("data_in_0", "data_in", 0, ("input",), reduce_dim=1),
                Operand("weight", "weight", 3),
                Operand("bias", "bias", 4),
            ),
            modules=(_module,),
            count=_batch_norm_count,
            compute=_batch_norm,
        )
    )

# The function is the same for any number of dimensions; only layers distinguish 1d and 2d.
register_op(
    Op(
        "batch_norm",
        "module_related_func",
        operands=(
            Operand("data_in_0", "data_in", 0, ("input",), reduce_dim=1),
            Operand("weight", "weight", 3, ("weight",)),
            Operand("bias", "bias", 4, ("bias",)),
        ),
        functions=(F.batch_norm,),
        count=_batch_norm_count,
    )
)


def _layer_norm_count(call: Call) -> Count:
    # Three steps per element for mean and variance, which batch norm does not compute; then as batch norm.
    n = numel(call.results[0])
    return Count(multiplies=3 * n + _batch_norm_count(call).multiplies)


def _layer_norm(layer: nn.LayerNorm, x: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
    return F.layer_norm(x, layer.normalized_shape, weight, bias, layer.eps)


register_op(
    Op(
        "layer_norm",
        "module_related_func",
        operands=(
            Operand("data_in_0", "data_in", 0, ("input",)),
            Operand("weight", "weight", 2, ("weight",)),
            Operand("bias", "bias", 3, ("bias",)),
        ),
        modules=(nn.LayerNorm,),
        functions=(F.layer_norm,),
        count=_layer_norm_count,
        compute=_layer_norm,
    )
)


def softmax_count(shape: Shape, dim: int | None = -1) -> Count:
    """Count an exponential and a division per element, and the sum of each row along `dim`."""
    n = numel(shape)
    length = shape[-1 if dim is None else dim] if shape else 1
    return Count(multiplies=2 * n, adds=n - n // length if length else 0)


register_op(
    Op(
        "softmax",
        "module_related_func",
        operands=(Operand("data_in_0", "data_in", 0, ("input",)),),
        modules=(nn.Softmax,),
        functions=(F.softmax, torch.softmax),
        methods=("softmax",),
        attributes={"dim": 1},
        count=lambda call: softmax_count(call.results[0], call.attributes.get("dim")),
    )
)
