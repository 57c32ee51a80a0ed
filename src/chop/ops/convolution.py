"""Convolutions and transposed convolutions."""

from __future__ import annotations

from typing import cast

from torch import Tensor, nn

from chop.ops.base import Call, Count, Op, Operand, numel
from chop.ops.spellings import register_spelled
from chop.ops.table import register_op


def _convolution_count(call: Call) -> Count:
    # A weight is [out, in / groups, *kernel], so groups are accounted for.
    return Count(macs=numel(call.results[0]) * numel(call.operands["weight"][1:]))


def _transposed_count(call: Call) -> Count:
    # A weight is [in, out / groups, *kernel]: each element of the input is multiplied by all that follows `in`.
    return Count(macs=numel(call.operands["data_in_0"]) * numel(call.operands["weight"][1:]))


def _convolution(
    layer: nn.Conv1d | nn.Conv2d | nn.Conv3d, x: Tensor, weight: Tensor, bias: Tensor | None
) -> Tensor:
    return cast(Tensor, layer._conv_forward(x, weight, bias))


def _operands(dims: int, reduce_dim: int, channel_dim: int) -> tuple[Operand, ...]:
    return (
        # The channels, counted from the end: the batch dimension is optional.
        Operand("data_in_0", "data_in", 0, ("input",), reduce_dim=-1 - dims),
        Operand("weight", "weight", 1, ("weight",), reduce_dim=reduce_dim, channel_dim=channel_dim),
        Operand("bias", "bias", 2, ("bias",)),
    )


for _dims, _layer, _transposed in (
    (1, nn.Conv1d, nn.ConvTranspose1d),
    (2, nn.Conv2d, nn.ConvTranspose2d),
    (3, nn.Conv3d, nn.ConvTranspose3d),
):
    register_spelled(
        f"conv{_dims}d",
        "module_related_func",
        _operands(_dims, reduce_dim=1, channel_dim=0),
        modules=(_layer,),
        batch_from_ndim=2 + _dims,
        count=_convolution_count,
        compute=_convolution,
    )
    register_spelled(
        f"conv_transpose{_dims}d",
        "module_related_func",
        _operands(_dims, reduce_dim=0, channel_dim=1),
        modules=(_transposed,),
        count=_transposed_count,
    )

# What torch decomposes all of them into.
register_op(
    Op(
        "convolution",
        "module_related_func",
        (
            Operand("data_in_0", "data_in", 0, ("input",), reduce_dim=1),
            Operand("weight", "weight", 1, ("weight",), reduce_dim=1, channel_dim=0),
            Operand("bias", "bias", 2, ("bias",)),
        ),
        aten=("convolution",),
        attributes={"transposed": None},
        count=lambda call: (_transposed_count if call.attributes["transposed"] else _convolution_count)(call),
    )
)
