"""Sums, means, extrema and running sums."""

from __future__ import annotations

from typing import Any

import torch

from chop.exporting.onnx_graph.builder import Name
from chop.exporting.onnx_graph.call import OnnxCall, Ref, lowers
from chop.exporting.onnx_graph.data_types import DataType

_OPS = {name: f"Reduce{name.removeprefix('a').capitalize()}" for name in ("mean", "sum", "amax", "amin", "prod")}
_OPS["logsumexp"] = "ReduceLogSumExp"


def _dims(call: OnnxCall) -> list[int]:
    dim = call.get("dim")
    if dim is None or dim in ([], ()):
        return []
    return [int(dim)] if isinstance(dim, int) else [int(each) for each in dim]


def _reduce(call: OnnxCall, op_type: str, x: Name) -> Name:
    dims = _dims(call)
    keep = int(bool(call.get("keepdim", False)))
    axes = [call.builder.integers(*dims)] if dims else []
    return call.builder.node(op_type, x, *axes, keepdims=keep if dims else 0)


@lowers(*_OPS)
def _reduction(call: OnnxCall) -> Name:
    if getattr(call.function, "__name__", "").startswith("nan"):
        raise call.refusal("ONNX has no reduction that leaves out NaN")
    return _reduce(call, _OPS[call.op.name], call.tensor("data_in_0", call.result.dtype))


@lowers("max", "min")
def _extremum(call: OnnxCall) -> Any:
    builder, kind = call.builder, call.op.name.capitalize()
    if call.has("data_in_1") and isinstance(call.operands["data_in_1"], Ref | torch.Tensor):
        left, right = call.tensor("data_in_0"), call.tensor("data_in_1")
        return builder.node(kind, left, right)
    x = call.tensor("data_in_0")
    dim = call.get("dim")
    if dim is None:
        return builder.node(f"Reduce{kind}", x, keepdims=0)
    indices = builder.node(f"Arg{kind}", x, axis=int(dim), keepdims=int(bool(call.get("keepdim"))))
    return _reduce(call, f"Reduce{kind}", x), indices


@lowers("argmax", "argmin")
def _arg(call: OnnxCall) -> Name:
    builder, x = call.builder, call.tensor("data_in_0")
    dim, keep = call.get("dim"), int(bool(call.get("keepdim", False)))
    if dim is None:
        x, dim = builder.reshape(x, [-1]), 0
    return builder.node("ArgMax" if call.op.name == "argmax" else "ArgMin", x, axis=int(dim), keepdims=keep)


@lowers("any", "all")
def _truth(call: OnnxCall) -> Name:
    numbers = call.builder.cast(call.tensor("data_in_0", torch.bool), DataType.INT32)
    found = _reduce(call, "ReduceMax" if call.op.name == "any" else "ReduceMin", numbers)
    return call.builder.cast(found, DataType.BOOL)


@lowers("cumsum")
def _cumsum(call: OnnxCall) -> Name:
    x = call.tensor("data_in_0", call.result.dtype)
    return call.builder.node("CumSum", x, call.builder.constant(int(call.get("dim")), torch.int64))


@lowers("diff")
def _diff(call: OnnxCall) -> Name:
    """Return differences of neighbours, `n` times; truth values differ by an exclusive or."""
    builder, x = call.builder, call.tensor("data_in_0", call.result.dtype)
    dim = call.dim(int(call.get("dim", -1)))
    ends = [call.get(name) for name in ("prepend", "append")]
    before, after = ([] if end is None else [call.value(end, call.result.dtype)] for end in ends)
    if before or after:
        x = builder.node("Concat", *before, x, *after, axis=dim)
    axis, end = builder.integers(dim), builder.integers(2**62)
    op_type = "Xor" if call.result.dtype is torch.bool else "Sub"
    for _ in range(int(call.get("n", 1))):
        later = builder.node("Slice", x, builder.integers(1), end, axis)
        x = builder.node(op_type, later, builder.node("Slice", x, builder.integers(0), builder.integers(-1), axis))
    return x


@lowers("var", "std")
def _variance(call: OnnxCall) -> Any:
    builder, x = call.builder, call.tensor("data_in_0")
    dims, shape = _dims(call) or list(range(call.rank())), call.shape()
    if isinstance(call.result, tuple):
        raise call.refusal("mean and variance are exported separately")
    correction = call.get("correction", call.get("unbiased", 1))
    correction = 1 if correction is None else int(correction)
    count = 1
    for dim in dims:
        count *= call.static(shape[dim], "the number of elements of a variance")
    axes = builder.integers(*dims)
    centred = builder.node("Sub", x, builder.node("ReduceMean", x, axes, keepdims=1))
    squares = builder.node("Mul", centred, centred)
    total = builder.node("ReduceSum", squares, axes, keepdims=int(bool(call.get("keepdim", False))))
    variance = builder.node("Div", total, builder.constant(float(count - correction)))
    return variance if call.op.name == "var" else builder.node("Sqrt", variance)


@lowers("norm")
def _norm(call: OnnxCall) -> Name:
    order = call.get("p", call.get("ord", 2))
    order = 2 if order in (None, "fro") else order
    if order not in (1, 2):
        raise call.refusal(f"ONNX has no norm of order {order}")
    return _reduce(call, "ReduceL1" if order == 1 else "ReduceL2", call.tensor("data_in_0"))


@lowers("topk")
def _topk(call: OnnxCall) -> Any:
    count = call.builder.integers(int(call.get("k")))
    largest, ordered = (int(bool(call.get(name, True))) for name in ("largest", "sorted"))
    axis = int(call.get("dim", -1))
    x = call.tensor("data_in_0")
    return call.builder.node_with_outputs("TopK", 2, x, count, axis=axis, largest=largest, sorted=ordered)
