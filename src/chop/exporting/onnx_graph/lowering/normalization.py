"""Normalisation and softmax."""

from __future__ import annotations

from typing import Any

import torch

from chop.exporting.onnx_graph.builder import Name
from chop.exporting.onnx_graph.call import OnnxCall, lowers


def _affine(call: OnnxCall, channels: int) -> tuple[Name, Name]:
    """Return weight and bias, or ones and zeros."""
    builder = call.builder
    weight = call.tensor("weight") if call.has("weight") else builder.constant(torch.ones(channels))
    bias = call.tensor("bias") if call.has("bias") else builder.constant(torch.zeros(channels))
    return weight, bias


@lowers("batch_norm1d", "batch_norm2d", "batch_norm3d", "batch_norm")
def _batch_norm(call: OnnxCall) -> Any:
    mean, variance = call.get("running_mean"), call.get("running_var")
    if mean is None or (call.module is None and call.get("training", False) is True):
        raise call.refusal("it normalises with the statistics of the batch")
    channels = call.static(call.shape()[1], "the number of channels")
    statistics = [call.value(mean), call.value(variance)]
    result = call.builder.node(
        "BatchNormalization",
        call.tensor("data_in_0"),
        *_affine(call, channels),
        *statistics,
        epsilon=float(call.get("eps", 1e-5)),
    )
    return (result, None, None) if isinstance(call.result, tuple) else result


@lowers("layer_norm")
def _layer_norm(call: OnnxCall) -> Any:
    shape = [int(n) for n in call.get("normalized_shape")]
    builder = call.builder
    weight = call.tensor("weight") if call.has("weight") else builder.constant(torch.ones(shape))
    operands = [weight, *call.given("bias")]
    eps = float(call.get("eps", 1e-5))
    x = call.tensor("data_in_0")
    result = builder.node("LayerNormalization", x, *operands, axis=-len(shape), epsilon=eps)
    return (result, None, None) if isinstance(call.result, tuple) else result


@lowers("rms_norm")
def _rms_norm(call: OnnxCall) -> Name:
    builder, x = call.builder, call.tensor("data_in_0")
    axes = builder.integers(*range(-len(call.get("normalized_shape")), 0))
    eps = call.get("eps")
    eps = torch.finfo(torch.float32).eps if eps is None else float(eps)
    mean = builder.node("ReduceMean", builder.node("Mul", x, x), axes, keepdims=1)
    root = builder.node("Sqrt", builder.node("Add", mean, builder.constant(eps)))
    result = builder.node("Mul", x, builder.node("Reciprocal", root))
    return builder.node("Mul", result, call.tensor("weight")) if call.has("weight") else result


@lowers("group_norm")
def _group_norm(call: OnnxCall) -> Any:
    builder, x = call.builder, call.tensor("data_in_0")
    groups = int(call.get("num_groups", call.get("group", 1)))
    channels = call.static(call.shape()[1], "the number of channels")
    grouped = builder.reshape(x, [0, groups, -1])
    ones, zeros = builder.constant(torch.ones(groups)), builder.constant(torch.zeros(groups))
    normal = builder.node("InstanceNormalization", grouped, ones, zeros, epsilon=float(call.get("eps", 1e-5)))
    result = builder.node("Reshape", normal, builder.node("Shape", x))
    result = _scaled_channels(call, result, channels)
    return (result, None, None) if isinstance(call.result, tuple) else result


def _scaled_channels(call: OnnxCall, x: Name, channels: int) -> Name:
    shape = [channels] + [1] * (call.rank() - 2)
    for name, op_type in (("weight", "Mul"), ("bias", "Add")):
        if call.has(name):
            x = call.builder.node(op_type, x, call.builder.reshape(call.tensor(name), shape))
    return x


@lowers("instance_norm")
def _instance_norm(call: OnnxCall) -> Name:
    mean = call.get("running_mean")
    uses_batch = call.get("use_input_stats", True) if call.module is None else not call.get("track_running_stats")
    if mean is not None and not uses_batch:
        return _batch_norm(call)  # type: ignore[no-any-return]
    channels = call.static(call.shape()[1], "the number of channels")
    eps = float(call.get("eps", 1e-5))
    return call.builder.node(
        "InstanceNormalization", call.tensor("data_in_0"), *_affine(call, channels), epsilon=eps
    )


@lowers("normalize")
def _normalize(call: OnnxCall) -> Name:
    builder, x = call.builder, call.tensor("data_in_0")
    power, dim = float(call.get("p", 2.0)), call.get("dim", 1)
    if power not in (1.0, 2.0):
        raise call.refusal(f"ONNX has no norm of order {power:g}")
    axes = builder.integers(*([dim] if isinstance(dim, int) else dim))
    norm = builder.node("ReduceL1" if power == 1.0 else "ReduceL2", x, axes, keepdims=1)
    return builder.node("Div", x, builder.node("Max", norm, builder.constant(float(call.get("eps", 1e-12)))))


@lowers("local_response_norm")
def _local_response_norm(call: OnnxCall) -> Name:
    size = int(call.get("size"))
    if size % 2 == 0:
        raise call.refusal("ONNX normalises over an odd number of channels only")
    alpha, beta, bias = (float(call.get(*each)) for each in (("alpha", 1e-4), ("beta", 0.75), ("k", 1.0)))
    return call.builder.node("LRN", call.tensor("data_in_0"), size=size, alpha=alpha, beta=beta, bias=bias)


@lowers("softmax", "log_softmax", "softmin", "softmax2d")
def _softmax(call: OnnxCall) -> Name:
    x = call.tensor("data_in_0", call.result.dtype)
    dim = -3 if call.op.name == "softmax2d" else call.get("dim")
    if dim is None:
        dim = 0 if call.rank() in (0, 1, 3) else 1
    if call.op.name == "softmin":
        x = call.builder.node("Neg", x)
    return call.builder.node("LogSoftmax" if call.op.name == "log_softmax" else "Softmax", x, axis=int(dim))
