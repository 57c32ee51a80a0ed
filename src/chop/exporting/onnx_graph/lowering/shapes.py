"""Sizes of tensors, and shapes that contain sizes that depend on the batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from chop.exporting.onnx_graph.builder import Name
from chop.exporting.onnx_graph.call import OnnxCall, Plain, Ref, Size
from chop.exporting.onnx_graph.data_types import OF_TORCH
from chop.exporting.onnx_graph.lowering.table import lowers


def size_of(call: OnnxCall, x: Ref, dim: int) -> int | Size:
    """Return the size of a dimension: a number, or a value of the graph if it depends on the batch."""
    known = x.shape[dim]
    if known is not None:
        return known
    shape = call.builder.node("Shape", x.name)
    return Size(call.builder.node("Gather", shape, call.builder.integers(dim % len(x.shape)), axis=0))


def shape_value(call: OnnxCall, sizes: Sequence[Any]) -> Name:
    """Return a list of sizes as a tensor of int64."""
    if all(isinstance(size, int) for size in sizes):
        return call.builder.integers(*sizes)
    parts = [size.name if isinstance(size, Size) else call.builder.integers(int(size)) for size in sizes]
    return call.builder.node("Concat", *parts, axis=0) if len(parts) > 1 else parts[0]


def result_sizes(call: OnnxCall, index: int = 0) -> list[int]:
    """Return the shape of a result for Reshape, in which one size may depend on the batch."""
    sizes = [-1 if n is None else n for n in call.shape_of_result(index)]
    if sizes.count(-1) > 1:
        raise call.refusal("several sizes of its result depend on the batch")
    return sizes


@lowers("size", "getattr")
def _size(call: OnnxCall) -> Any:
    x = call.operands["data_in_0"]
    if call.op.name == "getattr" and call.args[1] != "shape":
        raise call.refusal(f"ONNX has no attribute '{call.args[1]}'")
    dim = call.get("dim") if call.op.name == "size" else None
    if dim is not None:
        return Plain(size_of(call, x, int(dim)))
    return Plain([size_of(call, x, each) for each in range(len(x.shape))])


@lowers("numel")
def _numel(call: OnnxCall) -> Any:
    return Plain(Size(call.builder.reshape(call.builder.node("Size", call.tensor("data_in_0")), [1])))


@lowers("arange")
def _arange(call: OnnxCall) -> Name:
    """Return a range whose length depends on the batch; others are constants."""
    dtype = call.result.dtype
    if dtype.is_floating_point:
        raise call.refusal("it counts to the batch size in steps that are not integers")
    end = call.get("end", call.args[-1] if call.args else None)
    values = (call.get("start", 0), end, call.get("step", 1))
    start, limit, step = (call.value(each, torch.int64) for each in values)
    counted = call.builder.node("Range", start, limit, step)
    return counted if dtype is torch.int64 else call.builder.cast(counted, OF_TORCH[dtype])
