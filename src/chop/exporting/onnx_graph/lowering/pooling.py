"""Pooling: the mean, the maximum or a norm of windows."""

from __future__ import annotations

from typing import Any

from chop.exporting.onnx_graph.builder import Name
from chop.exporting.onnx_graph.call import OnnxCall, lowers
from chop.exporting.onnx_graph.lowering.convolution import batched, per_dim, unbatched


def _dims(call: OnnxCall) -> int:
    return int(call.op.name.removesuffix("d")[-1])


def _window(call: OnnxCall, dims: int) -> dict[str, Any]:
    kernel = per_dim(call.get("kernel_size"), dims)
    stride = call.get("stride")
    return {
        "kernel_shape": kernel,
        "strides": per_dim(stride, dims) if stride not in (None, [], ()) else kernel,
        "pads": per_dim(call.get("padding", 0), dims) * 2,
        "ceil_mode": int(call.get("ceil_mode", False)),
    }


@lowers("max_pool1d", "max_pool2d", "max_pool3d")
def _max_pool(call: OnnxCall) -> Any:
    dims = _dims(call)
    if call.get("return_indices", False) or isinstance(call.result, tuple):
        raise call.refusal("ONNX numbers the elements of a window in another way than PyTorch")
    x, added = batched(call, call.tensor("data_in_0"), dims)
    dilations = per_dim(call.get("dilation", 1), dims)
    return unbatched(call, call.builder.node("MaxPool", x, dilations=dilations, **_window(call, dims)), added)


@lowers("avg_pool1d", "avg_pool2d", "avg_pool3d")
def _avg_pool(call: OnnxCall) -> Name:
    dims = _dims(call)
    if call.get("divisor_override") is not None:
        raise call.refusal("ONNX has no average with another divisor")
    x, added = batched(call, call.tensor("data_in_0"), dims)
    include = int(call.get("count_include_pad", True))
    result = call.builder.node("AveragePool", x, count_include_pad=include, **_window(call, dims))
    return unbatched(call, result, added)


@lowers("lp_pool1d", "lp_pool2d", "lp_pool3d")
def _lp_pool(call: OnnxCall) -> Name:
    dims, power = _dims(call), float(call.get("norm_type"))
    if power not in (1.0, 2.0):
        raise call.refusal(f"ONNX pools with norms of integer order, got {power:g}")
    x, added = batched(call, call.tensor("data_in_0"), dims)
    return unbatched(call, call.builder.node("LpPool", x, p=int(power), **_window(call, dims)), added)


@lowers(*(f"adaptive_{kind}_pool{dims}d" for kind in ("avg", "max") for dims in (1, 2, 3)))
def _adaptive(call: OnnxCall) -> Name:
    dims, builder = _dims(call), call.builder
    if isinstance(call.result, tuple):
        raise call.refusal("ONNX numbers the elements of a window in another way than PyTorch")
    is_mean = "avg" in call.op.name
    x, added = batched(call, call.tensor("data_in_0"), dims)
    sizes = [call.static(n, "the size of an image") for n in call.shape()[-dims:]]
    wanted = [call.static(n, "the size of an image") for n in call.shape_of_result()[-dims:]]
    if all(n == 1 for n in wanted):
        result = builder.node("GlobalAveragePool" if is_mean else "GlobalMaxPool", x)
    elif any(n % m for n, m in zip(sizes, wanted, strict=True)):
        raise call.refusal(f"ONNX has no windows of different sizes, and {sizes} is not a multiple of {wanted}")
    else:
        kernel = [n // m for n, m in zip(sizes, wanted, strict=True)]
        result = builder.node("AveragePool" if is_mean else "MaxPool", x, kernel_shape=kernel, strides=kernel)
    return unbatched(call, result, added)
