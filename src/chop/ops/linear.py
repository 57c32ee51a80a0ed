"""Linear and bilinear layers, and embeddings."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from chop.ops.base import INNER, Call, Count, Factors, Op, Operand, numel
from chop.ops.spellings import data, register_spelled
from chop.ops.table import register_op


def _linear_count(call: Call) -> Count:
    return Count(macs=numel(call.results[0]) * call.operands["data_in_0"][-1])


def _linear(layer: nn.Module, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    return F.linear(x, weight, bias)


register_spelled(
    "linear",
    "module_related_func",
    (
        *data("data_in"),
        Operand("weight", "weight", 1, ("weight",), channel_dim=0),
        Operand("bias", "bias", 2, ("bias",)),
    ),
    modules=(nn.Linear,),
    batch_from_ndim=2,
    count=_linear_count,
    compute=_linear,
)


def _linear_transposed(layer: nn.Module, x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return torch.addmm(bias, x.view(-1, x.size(-1)), weight).view(*x.shape[:-1], weight.shape[-1])


register_op(
    Op(
        "linear_transposed",  # a linear layer whose weight is [in, out], such as Conv1D of GPT-2
        "module_related_func",
        (
            Operand("data_in_0", "data_in", 0, ("x",)),
            Operand("weight", "weight", 1, reduce_dim=-2, channel_dim=-1),
            Operand("bias", "bias", 2),
        ),
        foreign_modules=("transformers.pytorch_utils.Conv1D",),
        batch_from_ndim=2,
        count=_linear_count,
        compute=_linear_transposed,
    )
)


def _hadamard_count(call: Call) -> Count:
    """Count the additions of a fast Hadamard transform."""
    size = call.operands["data_in_0"][-1]
    return Count(adds=numel(call.results[0]) * max(1, (size - 1).bit_length()))


register_op(
    Op(
        "hadamard",  # a rotation of the inputs of a linear layer, which is never rounded itself
        "module",
        operands=(Operand("data_in_0", None, 0, ("input",)),),
        foreign_modules=("chop.nn.hadamard.Hadamard",),
        batch_from_ndim=2,
        count=_hadamard_count,
    )
)


def _bilinear_count(call: Call) -> Count:
    """Count for each result the product of the first input with a matrix, and of this with the second input."""
    left, right = (call.operands[f"data_in_{i}"][-1] for i in range(2))
    results = numel(call.results[0])
    matrix, vector = results * left * right, results * right
    products = (Factors("data_in_0", "weight", matrix, left), Factors("data_in_1", INNER, vector, right))
    return Count(macs=matrix + vector, products=products)


register_spelled(
    "bilinear",
    "module_related_func",
    (
        *data("data_in", "input1", "input2"),
        Operand("weight", "weight", 2, ("weight",), channel_dim=0),
        Operand("bias", "bias", 3, ("bias",)),
    ),
    modules=(nn.Bilinear,),
    count=_bilinear_count,
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


_LOOKUP = (
    Operand("data_in_0", None, 0, ("input", "indices")),
    Operand("weight", "weight", 1, ("weight",)),
)
register_op(
    Op(
        "embedding",
        "module_related_func",
        operands=_LOOKUP,
        modules=(nn.Embedding,),
        functions=(F.embedding,),  # torch.embedding has another order of arguments
        compute=_embedding,
    )
)


def _embedding_bag_count(call: Call) -> Count:
    """Count an addition, or a comparison, per element of each row that is looked up."""
    return Count(adds=numel(call.operands["data_in_0"]) * call.operands["weight"][-1])


register_op(
    Op(
        "embedding_bag",
        "module_related_func",
        _LOOKUP,
        modules=(nn.EmbeddingBag,),
        functions=(F.embedding_bag,),
        aten=("_embedding_bag",),
        count=_embedding_bag_count,
    )
)
