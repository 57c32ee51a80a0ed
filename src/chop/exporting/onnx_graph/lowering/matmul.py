"""Linear layers, embeddings and products of tensors."""

from __future__ import annotations

import string
from typing import Any

from chop.exporting.onnx_graph.builder import Name
from chop.exporting.onnx_graph.call import OnnxCall, lowers
from chop.nn.hadamard import rotation


@lowers("linear")
def _linear(call: OnnxCall) -> Name:
    builder, x, weight = call.builder, call.tensor("data_in_0"), call.tensor("weight")
    bias = call.tensor("bias") if call.has("bias") else None
    if call.rank() == 2 and call.rank("weight") == 2:
        return builder.node("Gemm", x, weight, *([] if bias is None else [bias]), transB=1)
    transposed = builder.node("Transpose", weight, perm=[1, 0]) if call.rank("weight") == 2 else weight
    product = builder.node("MatMul", x, transposed)
    return product if bias is None else builder.node("Add", product, bias)


@lowers("linear_transposed")
def _linear_transposed(call: OnnxCall) -> Name:
    product = call.builder.node("MatMul", call.tensor("data_in_0"), call.tensor("weight"))
    return call.builder.node("Add", product, call.tensor("bias"))


@lowers("hadamard")
def _hadamard(call: OnnxCall) -> Name:
    matrix = call.builder.constant(rotation(call.get("size")).float(), name=f"rotation.{call.get('size')}")
    return call.builder.node("MatMul", call.tensor("data_in_0"), matrix)


@lowers("bilinear")
def _bilinear(call: OnnxCall) -> Name:
    builder = call.builder
    left, right, weight = call.tensor("data_in_0"), call.tensor("data_in_1"), call.tensor("weight")
    result = builder.node("Einsum", left, weight, right, equation="...i,oij,...j->...o")
    return builder.node("Add", result, call.tensor("bias")) if call.has("bias") else result


@lowers("matmul", "bmm")
def _matmul(call: OnnxCall) -> Name:
    return call.builder.node("MatMul", call.tensor("data_in_0"), call.tensor("data_in_1"))


@lowers("addmm", "baddbmm")
def _addmm(call: OnnxCall) -> Name:
    builder, bias = call.builder, call.tensor("bias")
    product = builder.node("MatMul", call.tensor("data_in_0"), call.tensor("data_in_1"))
    if call.get("alpha", 1) != 1:
        product = builder.node("Mul", product, builder.constant(float(call.get("alpha"))))
    if call.get("beta", 1) != 1:
        bias = builder.node("Mul", bias, builder.constant(float(call.get("beta"))))
    return builder.node("Add", product, bias)


@lowers("outer")
def _outer(call: OnnxCall) -> Name:
    builder = call.builder
    column = builder.reshape(call.tensor("data_in_0"), [-1, 1])
    return builder.node("Mul", column, call.tensor("data_in_1"))


@lowers("tensordot")
def _tensordot(call: OnnxCall) -> Name:
    ranks = call.rank("data_in_0"), call.rank("data_in_1")
    dims = call.get("dims", 2)
    if isinstance(dims, int):
        dims = (range(ranks[0] - dims, ranks[0]), range(dims))
    left = list(string.ascii_lowercase[: ranks[0]])
    right = list(string.ascii_uppercase[: ranks[1]])
    for i, j in zip(*(list(each) for each in dims), strict=True):
        right[j % ranks[1]] = left[i % ranks[0]]
    kept = [each for each in (*left, *right) if not (each in left and each in right)]
    equation = f"{''.join(left)},{''.join(right)}->{''.join(kept)}"
    return call.builder.node("Einsum", call.tensor("data_in_0"), call.tensor("data_in_1"), equation=equation)


@lowers("einsum")
def _einsum(call: OnnxCall) -> Name:
    equation = call.get("equation", call.args[0])
    names = [call.tensor(name) for name in call.operands]
    return call.builder.node("Einsum", *names, equation=equation)


@lowers("embedding")
def _embedding(call: OnnxCall) -> Name:
    if call.get("max_norm") is not None:
        raise call.refusal("ONNX has no embedding that limits the norm of its rows")
    return call.builder.node("Gather", call.tensor("weight"), call.tensor("data_in_0"), axis=0)


@lowers("embedding_bag")
def _embedding_bag(call: OnnxCall) -> Any:
    builder = call.builder
    mode = call.get("mode", "mean")
    if call.rank() != 2 or call.get("per_sample_weights") is not None or call.get("max_norm") is not None:
        raise call.refusal("embedding bags are exported for indices of two dimensions without weights")
    if call.get("padding_idx") is not None:
        raise call.refusal("ONNX has no embedding bag that leaves out an index")
    rows = builder.node("Gather", call.tensor("weight"), call.tensor("data_in_0"), axis=0)
    op_type = {"mean": "ReduceMean", "sum": "ReduceSum", "max": "ReduceMax"}[mode]
    return builder.node(op_type, rows, builder.integers(1), keepdims=0)
