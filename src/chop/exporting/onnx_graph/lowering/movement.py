"""Ops that move data: views, slices, concatenation, gathering, padding; and sizes that depend on the batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from chop.exporting.onnx_graph.builder import Name
from chop.exporting.onnx_graph.call import OnnxCall, Plain, Ref, Size, lowers
from chop.exporting.onnx_graph.data_types import OF_TORCH
from chop.exporting.onnx_graph.lowering.convolution import PAD_MODES

END = 2**62


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


@lowers("identity", "contiguous", "clone", "detach", "alias", "requires_grad_")
def _same(call: OnnxCall) -> Any:
    return call.operands["data_in_0"]


@lowers("view", "reshape", "flatten", "unflatten", "squeeze", "unsqueeze", "ravel", "view_as", "reshape_as")
def _reshape(call: OnnxCall) -> Name:
    """Reshape to the recorded shape, in which at most one size depends on the batch; else to the given sizes."""
    x = call.tensor("data_in_0")
    if call.shape_of_result().count(None) <= 1:
        return call.builder.reshape(x, result_sizes(call))
    given = call.get("size", call.get("shape"))
    if given is None:
        raise call.refusal("several sizes of its result depend on the batch")
    return call.builder.reshape(x, shape_value(call, given))


@lowers("permute", "transpose", "t", "movedim", "swapaxes")
def _transpose(call: OnnxCall) -> Name:
    """Permute as PyTorch does, found by permuting a tensor whose sizes are all different."""
    rank = call.rank()
    probe = torch.empty([i + 2 for i in range(rank)])
    moved = _apply(call, probe)
    return call.builder.node("Transpose", call.tensor("data_in_0"), perm=[n - 2 for n in moved.shape])


def _apply(call: OnnxCall, probe: Tensor) -> Tensor:
    """Return what the call makes of another tensor."""
    target = call.function
    if isinstance(target, str):
        result: Tensor = getattr(probe, target)(*call.args[1:], **call.kwargs)
        return result
    rest = {name: value for name, value in call.kwargs.items() if name not in ("input", "self")}
    applied: Tensor = target(probe, *call.args[1:], **rest)
    return applied


@lowers("expand", "expand_as", "broadcast_to")
def _expand(call: OnnxCall) -> Name:
    x = call.tensor("data_in_0")
    free = [d for d, n in enumerate(call.shape_of_result()) if n is None]
    source = call.operands["data_in_0"].shape
    offset = len(call.shape_of_result()) - len(source)
    sizes: list[Any] = list(call.shape_of_result())
    given = call.get("size", call.get("shape"))
    for d in free:
        if d >= offset and source[d - offset] is None:
            sizes[d] = 1  # Expand broadcasts in both directions
        elif isinstance(given, list | tuple) and isinstance(given[d], Size):
            sizes[d] = given[d]
        else:
            raise call.refusal("it expands to a size that depends on the batch")
    return call.builder.node("Expand", x, shape_value(call, sizes))


@lowers("repeat", "tile")
def _tile(call: OnnxCall) -> Name:
    times = call.get("repeats", call.get("dims"))
    builder, x = call.builder, call.tensor("data_in_0")
    if len(times) > call.rank():
        axes = builder.integers(*range(len(times) - call.rank()))
        x = builder.node("Unsqueeze", x, axes)
    times = [1] * (call.rank() - len(times)) + list(times)
    return builder.node("Tile", x, shape_value(call, times))


@lowers("cat")
def _cat(call: OnnxCall) -> Name:
    names = [call.tensor(name, call.result.dtype) for name in call.operands if call.shape(name) != (0,)]
    return call.builder.node("Concat", *names, axis=int(call.get("dim", call.get("axis", 0))))


@lowers("stack")
def _stack(call: OnnxCall) -> Name:
    dim = int(call.get("dim", 0)) % len(call.shape_of_result())
    axes = call.builder.integers(dim)
    names = [call.builder.node("Unsqueeze", call.tensor(name, call.result.dtype), axes) for name in call.operands]
    return call.builder.node("Concat", *names, axis=dim)


@lowers("chunk", "split", "unbind", "split_with_sizes", "tensor_split")
def _split(call: OnnxCall) -> Any:
    builder, x = call.builder, call.tensor("data_in_0")
    dim = call.dim(int(call.get("dim", 0)))
    call.static(call.shape()[dim], "the size that is divided")
    if call.op.name == "unbind":
        return tuple(
            builder.node("Gather", x, builder.constant(i, torch.int64), axis=dim) for i in range(len(call.result))
        )
    sizes = builder.integers(*(part.shape[dim] for part in call.result))
    return builder.node_with_outputs("Split", len(call.result), x, sizes, axis=dim)


def _sliced(call: OnnxCall, x: Name, dim: int, start: Any, end: Any, step: Any) -> Name:
    builder = call.builder
    ends = [END if end is None else end]
    bounds = [shape_value(call, [0 if start is None else start]), shape_value(call, ends)]
    return builder.node(
        "Slice", x, *bounds, builder.integers(dim), builder.integers(1 if step is None else int(step))
    )


@lowers("slice")
def _slice(call: OnnxCall) -> Name:
    x, dim = call.tensor("data_in_0"), call.dim(int(call.get("dim", 0)))
    return _sliced(call, x, dim, call.get("start"), call.get("end"), call.get("step"))


@lowers("narrow")
def _narrow(call: OnnxCall) -> Name:
    start, length, dim = int(call.get("start")), int(call.get("length")), call.dim(int(call.get("dim")))
    if start < 0:
        start += call.static(call.shape()[dim], "the size that is narrowed")
    return _sliced(call, call.tensor("data_in_0"), dim, start, start + length, 1)


@lowers("select")
def _select(call: OnnxCall) -> Name:
    index = call.builder.constant(int(call.get("index")), torch.int64)
    return call.builder.node("Gather", call.tensor("data_in_0"), index, axis=call.dim(int(call.get("dim"))))


@lowers("getitem")
def _getitem(call: OnnxCall) -> Any:
    x = call.operands["data_in_0"]
    index = call.args[1]
    if not isinstance(x, Ref):
        return Plain(x[index])  # of a tuple of results, or of a shape
    parts = list(index) if isinstance(index, tuple) else [index]
    if any(isinstance(part, Ref | Tensor | list) for part in parts):
        return _gathered(call, x.name, parts)
    return _by_slices(call, x.name, parts)


def _by_slices(call: OnnxCall, x: Name, parts: list[Any]) -> Name:
    """Return `x[parts]` for integers, slices, None and an ellipsis."""
    num_used = sum(part is not None and part is not Ellipsis for part in parts)
    if Ellipsis in parts:
        at = parts.index(Ellipsis)
        parts = [*parts[:at], *[slice(None)] * (call.rank() - num_used), *parts[at + 1 :]]
    builder, dim, removed, added = call.builder, 0, [], []
    for at, part in enumerate(parts):
        if part is None:
            added.append(at - sum(isinstance(each, int | Size) for each in parts[:at]))
            continue
        if isinstance(part, slice) and part != slice(None):
            x = _sliced(call, x, dim, part.start, part.stop, part.step)
        elif isinstance(part, int):
            end = END if part == -1 else part + 1
            x = _sliced(call, x, dim, part, end, 1)
            removed.append(dim)
        elif not isinstance(part, slice):
            raise call.refusal("it is indexed with a number that depends on the batch")
        dim += 1
    if removed:
        x = builder.node("Squeeze", x, builder.integers(*removed))
    return builder.node("Unsqueeze", x, builder.integers(*added)) if added else x


def _gathered(call: OnnxCall, x: Name, parts: list[Any]) -> Name:
    """Return `x[index]` for one tensor of indices, with full slices before it."""
    tensors = [part for part in parts if not (isinstance(part, slice) and part == slice(None))]
    at = next(i for i, part in enumerate(parts) if part is tensors[0])
    if len(tensors) > 1:
        return _gathered_pairs(call, x, tensors, at)
    index = torch.tensor(tensors[0]) if isinstance(tensors[0], list) else tensors[0]
    if index.dtype is torch.bool:
        raise call.refusal("the number of its results depends on the data")
    return call.builder.node("Gather", x, call.value(index, torch.int64), axis=at)


def _gathered_pairs(call: OnnxCall, x: Name, tensors: list[Any], at: int) -> Name:
    """Return `x[i, j]` for index tensors of the first dimensions, which are broadcast."""
    if at != 0 or not all(isinstance(each, Ref | Tensor) for each in tensors):
        raise call.refusal("it is indexed with several tensors")
    builder = call.builder
    names = [call.value(each, torch.int64) for each in tensors]
    zero = names[0]
    for name in names[1:]:
        zero = builder.node("Add", zero, name)
    shape = builder.node("Shape", zero)
    columns = [
        builder.node("Unsqueeze", builder.node("Expand", name, shape), builder.integers(-1)) for name in names
    ]
    return builder.node("GatherND", x, builder.node("Concat", *columns, axis=-1))


@lowers("index")
def _index(call: OnnxCall) -> Name:
    parts = [slice(None) if part is None else part for part in call.get("indices")]
    return _gathered(call, call.tensor("data_in_0"), parts)


@lowers("index_select")
def _index_select(call: OnnxCall) -> Name:
    index = call.value(call.get("index"), torch.int64)
    return call.builder.node("Gather", call.tensor("data_in_0"), index, axis=call.dim(int(call.get("dim"))))


@lowers("gather")
def _gather(call: OnnxCall) -> Name:
    index = call.value(call.get("index"), torch.int64)
    axis = call.dim(int(call.get("dim")))
    return call.builder.node("GatherElements", call.tensor("data_in_0"), index, axis=axis)


@lowers("flip")
def _flip(call: OnnxCall) -> Name:
    x, dims = call.tensor("data_in_0"), call.get("dims")
    for dim in [dims] if isinstance(dims, int) else dims:
        x = _sliced(call, x, call.dim(dim), -1, -END, -1)
    return x


@lowers("roll")
def _roll(call: OnnxCall) -> Name:
    """Return a tensor in which the last elements of a dimension come first."""
    x, given = call.tensor("data_in_0"), (call.get("shifts"), call.get("dims", []))
    shifts, dims = ([each] if isinstance(each, int) else list(each) for each in given)
    if len(dims) != len(shifts):
        raise call.refusal("it rolls all dimensions as one")
    for shift, dim in zip(shifts, map(call.dim, dims), strict=True):
        start = -(shift % call.static(call.shape()[dim], "the size that is rolled"))
        if start:
            parts = _sliced(call, x, dim, start, None, 1), _sliced(call, x, dim, 0, start, 1)
            x = call.builder.node("Concat", *parts, axis=dim)
    return x


@lowers("tril", "triu")
def _triangle(call: OnnxCall) -> Name:
    diagonal = call.builder.constant(int(call.get("diagonal", 0)), torch.int64)
    return call.builder.node("Trilu", call.tensor("data_in_0"), diagonal, upper=int(call.op.name == "triu"))


@lowers("zeros_like", "ones_like", "full_like", "new_zeros", "new_ones", "new_full", "zeros", "ones", "full")
def _filled(call: OnnxCall) -> Name:
    builder, free = call.builder, list(call.shape_of_result())
    fill = {"ze": 0, "on": 1}.get(call.op.name.removeprefix("new_")[:2], call.get("fill_value"))
    if isinstance(fill, Ref | Size):
        raise call.refusal("it is filled with a number that depends on the data")
    value = builder.constant(fill, call.result.dtype)
    if "like" in call.op.name:
        return builder.node("Expand", value, builder.node("Shape", call.tensor("data_in_0")))
    given = call.get("size")
    sizes = [given[d] if n is None else n for d, n in enumerate(free)]
    return builder.node("Expand", value, shape_value(call, sizes))


@lowers("pad", "constant_pad_nd")
def _pad(call: OnnxCall) -> Name:
    builder, rank = call.builder, call.rank()
    given = call.get("pad", call.get("padding"))
    kind = type(call.module).__name__.lower() if call.module is not None else str(call.get("mode", "constant"))
    mode = next((PAD_MODES[each] for each in PAD_MODES if kind.startswith(each[:5])), "constant")
    given = [given] * (2 * int(kind[-2])) if isinstance(given, int) else list(given)
    before, after = [0] * rank, [0] * rank
    for i in range(len(given) // 2):
        before[rank - 1 - i], after[rank - 1 - i] = given[2 * i], given[2 * i + 1]
    fill = call.get("value", 0.0)
    values = [builder.constant(0.0 if fill is None else fill, call.result.dtype)] if mode == "constant" else []
    return builder.node("Pad", call.tensor("data_in_0"), builder.integers(*before, *after), *values, mode=mode)


@lowers("pixel_shuffle", "pixel_unshuffle")
def _pixel_shuffle(call: OnnxCall) -> Name:
    builder, x = call.builder, call.tensor("data_in_0")
    if call.op.name == "pixel_shuffle":
        return builder.node("DepthToSpace", x, blocksize=int(call.get("upscale_factor")), mode="CRD")
    factor = int(call.get("downscale_factor"))
    channels, height, width = (call.static(n, "the size of an image") for n in call.shape()[-3:])
    split = builder.reshape(x, [-1, channels, height // factor, factor, width // factor, factor])
    moved = builder.node("Transpose", split, perm=[0, 1, 3, 5, 2, 4])
    return builder.reshape(moved, result_sizes(call))


@lowers("outputs")
def _outputs(call: OnnxCall) -> Any:
    return Plain(dict(call.kwargs) | {str(i): value for i, value in enumerate(call.args)})
