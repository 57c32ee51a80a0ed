"""Normalisation: batch, layer, group, instance and RMS normalisation, unit vectors, softmax."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch.nn.functional as F
from torch import Tensor, nn

from chop.ops.base import Call, Count, Op, Operand, Shape, numel
from chop.ops.spellings import data, register_spelled
from chop.ops.table import register_op


def _batch_norm_count(call: Call) -> Count:
    # Subtract the mean and divide by the deviation; then scale and shift, if there are weight and bias.
    steps = 2 + ("weight" in call.operands) + ("bias" in call.operands)
    return Count(multiplies=steps * numel(call.results[0]))


def _batch_norm(
    layer: nn.BatchNorm1d | nn.BatchNorm2d | nn.BatchNorm3d, x: Tensor, weight: Tensor | None, bias: Tensor | None
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


def _channels(weight: int, bias: int) -> tuple[Operand, ...]:
    """Return the operands of a normalisation whose blocks run along the channels."""
    return (
        Operand("data_in_0", "data_in", 0, ("input",), reduce_dim=1),
        Operand("weight", "weight", weight, ("weight",)),
        Operand("bias", "bias", bias, ("bias",)),
    )


for _name, _module in (
    ("batch_norm1d", nn.BatchNorm1d),
    ("batch_norm2d", nn.BatchNorm2d),
    ("batch_norm3d", nn.BatchNorm3d),
):
    register_op(
        Op(_name, "module", _channels(3, 4), modules=(_module,), count=_batch_norm_count, compute=_batch_norm)
    )

# The function is the same for any number of dimensions; only layers distinguish 1d, 2d and 3d.
register_spelled(
    "batch_norm",
    "module_related_func",
    _channels(3, 4),
    aten=("native_batch_norm", "_native_batch_norm_legit", "_native_batch_norm_legit_no_training"),
    count=_batch_norm_count,
)


def _layer_norm_count(call: Call) -> Count:
    # Three steps per element for mean and variance, which batch norm does not compute; then as batch norm.
    n = numel(call.results[0])
    return Count(multiplies=3 * n + _batch_norm_count(call).multiplies)


def _layer_norm(layer: nn.LayerNorm, x: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
    return F.layer_norm(x, layer.normalized_shape, weight, bias, layer.eps)


register_spelled(
    "layer_norm",
    "module_related_func",
    (
        *data("data_in"),
        Operand("weight", "weight", 2, ("weight",)),
        Operand("bias", "bias", 3, ("bias",)),
    ),
    modules=(nn.LayerNorm,),
    aten=("native_layer_norm",),
    count=_layer_norm_count,
    compute=_layer_norm,
)
register_spelled(
    "group_norm",
    "module_related_func",
    _channels(2, 3),
    modules=(nn.GroupNorm,),
    aten=("native_group_norm",),
    count=_layer_norm_count,
)


def _instance_norm_count(call: Call) -> Count:
    # With running statistics, mean and variance are constants in evaluation.
    tracked = call.attributes.get("track_running_stats", False)
    return _batch_norm_count(call) if tracked else _layer_norm_count(call)


register_spelled(
    "instance_norm",
    "module_related_func",
    _channels(3, 4),
    modules=(nn.InstanceNorm1d, nn.InstanceNorm2d, nn.InstanceNorm3d),
    attributes={"track_running_stats": None},
    count=_instance_norm_count,
)


def _rms_norm_count(call: Call) -> Count:
    # Square, add and divide; then scale, if there is a weight.
    return Count(multiplies=(3 + ("weight" in call.operands)) * numel(call.results[0]))


register_spelled(
    "rms_norm",
    "module_related_func",
    (*data("data_in"), Operand("weight", "weight", 2, ("weight",))),
    modules=(nn.RMSNorm,),
    count=_rms_norm_count,
)
register_spelled("normalize", "module_related_func", data("data_in"), count=_rms_norm_count)


def _local_response_norm_count(call: Call) -> Count:
    # The mean of the squares of `size` neighbours, times alpha, plus k, to the power of beta; then a division.
    n = numel(call.results[0])
    return Count(multiplies=5 * n, adds=(call.attributes["size"] + 1) * n)


register_spelled(
    "local_response_norm",
    "module_related_func",
    (Operand("data_in_0", "data_in", 0, ("input",), reduce_dim=1),),
    modules=(nn.LocalResponseNorm,),
    attributes={"size": 1},
    count=_local_response_norm_count,
)


def softmax_count(shape: Shape, dim: int | None = -1) -> Count:
    """Count an exponential and a division per element, and the sum of each row along `dim`."""
    n = numel(shape)
    length = shape[-1 if dim is None else dim] if shape else 1
    return Count(multiplies=2 * n, adds=n - n // length if length else 0)


def _log_softmax_count(shape: Shape, dim: int | None = -1) -> Count:
    """Count an exponential and a subtraction per element, and sum and logarithm of each row along `dim`."""
    n, sums = numel(shape), softmax_count(shape, dim).adds
    return Count(multiplies=n + (n - sums), adds=sums + n)


def _softmin_count(shape: Shape, dim: int | None = -1) -> Count:
    return softmax_count(shape, dim) + Count(adds=numel(shape))


def _along_dim(count: Callable[[Shape, int | None], Count], call: Call) -> Count:
    return count(call.results[0], call.attributes.get("dim"))


_SOFTMAXES: tuple[tuple[str, type[nn.Module], Callable[[Shape, int | None], Count]], ...] = (
    ("softmax", nn.Softmax, softmax_count),
    ("log_softmax", nn.LogSoftmax, _log_softmax_count),
    ("softmin", nn.Softmin, _softmin_count),
)
for _name, _softmax, _count in _SOFTMAXES:
    register_spelled(
        _name,
        "module_related_func",
        data("data_in"),
        modules=(_softmax,),
        aten=(f"_{_name}",),
        attributes={"dim": 1},
        count=partial(_along_dim, _count),
    )
register_op(
    Op(
        "softmax2d",
        "module_related_func",
        data("data_in"),
        modules=(nn.Softmax2d,),
        count=lambda call: softmax_count(call.results[0], -3),
    )
)
