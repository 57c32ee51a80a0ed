"""Convolutions and transposed convolutions."""

from __future__ import annotations

from typing import Any

from chop.exporting.onnx_graph.builder import Name
from chop.exporting.onnx_graph.call import OnnxCall, lowers

PAD_MODES = {
    "zeros": "constant",
    "constant": "constant",
    "reflect": "reflect",
    "replicate": "edge",
    "circular": "wrap",
}


def per_dim(value: Any, dims: int) -> list[int]:
    """Return one number per dimension; a single number is for all."""
    values = [value] * dims if isinstance(value, int) else list(value)
    return values * dims if len(values) == 1 else values


def batched(call: OnnxCall, x: Name, dims: int) -> tuple[Name, bool]:
    """Return a tensor with a batch dimension, and whether it was added."""
    if call.rank() == dims + 2:
        return x, False
    return call.builder.node("Unsqueeze", x, call.builder.integers(0)), True


def unbatched(call: OnnxCall, x: Name, added: bool) -> Name:
    """Return a result without the batch dimension that was added."""
    return call.builder.node("Squeeze", x, call.builder.integers(0)) if added else x


def _pads(call: OnnxCall, dims: int, kernel: list[int], dilation: list[int]) -> list[int]:
    """Return the padding before and after, by dimension: [1, 1, 1, 1] for one pixel on each side."""
    padding = call.get("padding", 0)
    if padding == "valid":
        return [0] * (2 * dims)
    if padding == "same":
        totals = [d * (k - 1) for d, k in zip(dilation, kernel, strict=True)]
        return [total // 2 for total in totals] + [total - total // 2 for total in totals]
    return per_dim(padding, dims) * 2


@lowers("conv1d", "conv2d", "conv3d", "convolution")
def _convolution(call: OnnxCall) -> Name:
    if call.get("transposed", False) is True and call.op.name == "convolution":
        return _transposed(call)
    builder, dims = call.builder, call.rank("weight") - 2
    kernel = [int(n) for n in call.shape("weight")[2:] if n is not None]
    dilation = per_dim(call.get("dilation", 1), dims)
    pads = _pads(call, dims, kernel, dilation)
    x, added = batched(call, call.tensor("data_in_0"), dims)
    mode = call.get("padding_mode", "zeros")
    if mode != "zeros":
        around = [0, 0, *pads[:dims], 0, 0, *pads[dims:]]
        x, pads = builder.node("Pad", x, builder.integers(*around), mode=PAD_MODES[mode]), [0] * (2 * dims)
    operands = [x, call.tensor("weight"), *call.given("bias")]
    result = builder.node(
        "Conv",
        *operands,
        kernel_shape=kernel,
        strides=per_dim(call.get("stride", 1), dims),
        pads=pads,
        dilations=dilation,
        group=int(call.get("groups", 1)),
    )
    return unbatched(call, result, added)


@lowers("conv_transpose1d", "conv_transpose2d", "conv_transpose3d")
def _transposed(call: OnnxCall) -> Name:
    builder, dims = call.builder, call.rank("weight") - 2
    if call.get("output_size") is not None:
        raise call.refusal("ONNX has no transposed convolution whose output size is an argument")
    x, added = batched(call, call.tensor("data_in_0"), dims)
    operands = [x, call.tensor("weight"), *call.given("bias")]
    result = builder.node(
        "ConvTranspose",
        *operands,
        kernel_shape=[int(n) for n in call.shape("weight")[2:] if n is not None],
        strides=per_dim(call.get("stride", 1), dims),
        pads=per_dim(call.get("padding", 0), dims) * 2,
        output_padding=per_dim(call.get("output_padding", 0), dims),
        dilations=per_dim(call.get("dilation", 1), dims),
        group=int(call.get("groups", 1)),
    )
    return unbatched(call, result, added)
