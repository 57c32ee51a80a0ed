"""Ops that multiply data by weights: linear layers, convolutions, matrix products, attention, embedding."""

from __future__ import annotations

import operator
from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from chop.ops.base import Call, Count, Op, Operand, numel
from chop.ops.normalization import softmax_count
from chop.ops.table import register_op


def _linear_count(call: Call) -> Count:
    return Count(macs=numel(call.results[0]) * call.operands["weight"][-1])


def _linear(layer: nn.Module, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    return F.linear(x, weight, bias)


register_op(
    Op(
        "linear",
        "module_related_func",
        operands=(
            Operand("data_in_0", "data_in", 0, ("input",)),
            Operand("weight", "weight", 1, ("weight",), channel_dim=0),
            Operand("bias", "bias", 2, ("bias",)),
        ),
        modules=(nn.Linear,),
        batch_from_ndim=2,
        functions=(F.linear,),
        count=_linear_count,
        compute=_linear,
    )
)


def _convolution_count(call: Call) -> Count:
    # A weight is [out, in / groups, *kernel], so groups are accounted for.
    return Count(macs=numel(call.results[0]) * numel(call.operands["weight"][1:]))


def _convolution(layer: nn.Conv1d | nn.Conv2d, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    return cast(Tensor, layer._conv_forward(x, weight, bias))


for _dims, _module, _function in ((1, nn.Conv1d, F.conv1d), (2, nn.Conv2d, F.conv2d)):
    register_op(
        Op(
            f"conv{_dims}d",
            "module_related_func",
            operands=(
                # The channels, counted from the end: the batch dimension is optional.
                Operand("data_in_0", "data_in", 0, ("input",), reduce_dim=-1 - _dims),
                Operand("weight", "weight", 1, ("weight",), reduce_dim=1, channel_dim=0),
                Operand("bias", "bias", 2, ("bias",)),
            ),
            modules=(_module,),
            functions=(_function,),
            batch_from_ndim=2 + _dims,
            count=_convolution_count,
            compute=_convolution,
        )
    )


def _matmul_count(call: Call) -> Count:
    return Count(macs=numel(call.results[0]) * call.operands["data_in_0"][-1])


_PRODUCT_OPERANDS = (
    Operand("data_in_0", "data_in", 0, ("input",)),
    Operand("data_in_1", "weight", 1, ("other", "mat2"), reduce_dim=-2, channel_dim=-1),
)
register_op(
    Op(
        "matmul",
        "builtin_func",
        operands=_PRODUCT_OPERANDS,
        functions=(torch.matmul, torch.mm, operator.matmul),
        methods=("matmul", "mm", "__matmul__"),
        count=_matmul_count,
    )
)
register_op(
    Op(
        "bmm",
        "builtin_func",
        operands=_PRODUCT_OPERANDS,
        functions=(torch.bmm,),
        methods=("bmm",),
        count=_matmul_count,
    )
)


def _attention_count(call: Call) -> Count:
    query, key, value = (call.operands[f"data_in_{i}"] for i in range(3))
    shape = (*call.results[0][:-1], key[-2])  # of the scores; the batches of query and key are broadcast
    scores, softmax = numel(shape), softmax_count(shape)
    by_key, by_value = scores * query[-1], scores * value[-1]
    # Nothing is rounded between the two products: the probabilities count with the width of the query.
    return Count(
        macs=by_key + by_value,
        multiplies=scores + softmax.multiplies,
        adds=softmax.adds,
        products=(("data_in_0", "data_in_1", by_key), ("data_in_0", "data_in_2", by_value)),
    )


register_op(
    Op(
        "scaled_dot_product_attention",
        "module_related_func",
        operands=(
            Operand("data_in_0", "data_in", 0, ("query",)),
            Operand("data_in_1", "data_in", 1, ("key",)),
            Operand("data_in_2", "data_in", 2, ("value",), reduce_dim=-2),
        ),
        functions=(F.scaled_dot_product_attention,),
        count=_attention_count,
    )
)


def _embedding(layer: Any, indices: Tensor, weight: Tensor) -> Tensor:
    if layer.max_norm is not None:
        # Rows with a norm above max_norm are scaled down in the parameter itself, before it is rounded.
        with torch.no_grad():
            torch.embedding_renorm_(layer.weight, indices.contiguous(), layer.max_norm, layer.norm_type)
        weight = layer.quantized("weight")
    return F.embedding(
        indices,
        weight,
        layer.padding_idx,
        scale_grad_by_freq=layer.scale_grad_by_freq,
        sparse=layer.sparse,
    )


register_op(
    Op(
        "embedding",
        "module_related_func",
        operands=(Operand("data_in_0", None, 0, ("input", "indices")), Operand("weight", "weight", 1, ("weight",))),
        modules=(nn.Embedding,),
        functions=(F.embedding,),
        compute=_embedding,
    )
)
