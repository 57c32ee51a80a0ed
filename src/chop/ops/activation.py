"""Element-wise ops of one operand."""

from __future__ import annotations

from dataclasses import replace

import torch
import torch.nn.functional as F
from torch import nn

from chop.ops.base import Call, Count, Op, Operand, numel
from chop.ops.table import register_op

_DATA = (Operand("data_in_0", "data_in", 0, ("input",)),)


def _one_each(call: Call) -> Count:
    """Count one operation per element for any activation, which is the convention of the course."""
    return Count(adds=numel(call.results[0]))


for _op in (
    Op(
        "relu",
        "module_related_func",
        modules=(nn.ReLU,),
        functions=(F.relu, F.relu_, torch.relu, torch.relu_),
        methods=("relu", "relu_"),
    ),
    Op(
        "leaky_relu",
        "module_related_func",
        modules=(nn.LeakyReLU,),
        functions=(F.leaky_relu, F.leaky_relu_),
    ),
    Op("gelu", "module_related_func", modules=(nn.GELU,), functions=(F.gelu,)),
    Op("silu", "module_related_func", modules=(nn.SiLU,), functions=(F.silu,)),
    Op(
        "sigmoid",
        "module_related_func",
        modules=(nn.Sigmoid,),
        functions=(F.sigmoid, torch.sigmoid, torch.sigmoid_),
        methods=("sigmoid", "sigmoid_"),
    ),
    Op(
        "tanh",
        "module_related_func",
        modules=(nn.Tanh,),
        functions=(F.tanh, torch.tanh, torch.tanh_),
        methods=("tanh", "tanh_"),
    ),
    Op(
        "selu",
        "module_related_func",
        modules=(nn.SELU,),
        functions=(F.selu, torch.selu, torch.selu_),
    ),
    Op("softplus", "module_related_func", modules=(nn.Softplus,), functions=(F.softplus,)),
    Op("softsign", "module_related_func", modules=(nn.Softsign,), functions=(F.softsign,)),
    Op(
        "hardtanh",
        "module_related_func",
        modules=(nn.Hardtanh, nn.ReLU6),
        functions=(F.hardtanh, F.hardtanh_, F.relu6),
    ),
):
    register_op(replace(_op, operands=_DATA, count=_one_each, batch_from_ndim=1))

# Never quantised: in training it keeps the format of its input, and in evaluation it does nothing.
register_op(
    Op(
        "dropout",
        "module_related_func",
        operands=(Operand("data_in_0", None, 0, ("input",)),),
        modules=(nn.Dropout, nn.Dropout1d, nn.Dropout2d),
        functions=(F.dropout, F.dropout1d, F.dropout2d, torch.dropout),
    )
)
