"""Biases of layers with integer inputs and weights as INT32, the only type that engines add to integer sums."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from chop.exporting.onnx_graph.builder import Name, OnnxBuilder, OnnxNode
from chop.exporting.onnx_graph.data_types import DataType

LAYERS = ("Conv", "Gemm")
"""Ops whose inputs are data, weight and bias, in this order."""
_EIGHT_BITS = {DataType.INT8: torch.int8, DataType.UINT8: torch.uint8}


def widen_biases(builder: OnnxBuilder) -> None:
    """Store 8-bit biases as INT32 with the product of the scales of data and weight, where no number changes."""
    made = {name: node for node in builder.nodes for name in node.outputs}
    wanted: dict[Name, list[Tensor]] = {}
    for node in builder.nodes:
        if node.op_type in LAYERS and len(node.inputs) > 2:
            scale = _product(builder, made, *node.inputs[:2])
            wanted.setdefault(node.inputs[2], []).extend([] if scale is None else [scale])
    for bias, scales in wanted.items():
        if bias in made and scales and all(torch.equal(each, scales[0]) for each in scales):
            _widen(builder, made[bias], scales[0])


def _product(builder: OnnxBuilder, made: dict[Name, OnnxNode], data: Name, weight: Name) -> Tensor | None:
    """Return the scale of products; None if data or weight do not have a constant one."""
    scales = [_scale(builder, made[name]) for name in (data, weight) if name in made]
    found = [scale for scale in scales if scale is not None]
    return None if len(found) < 2 or found[0].dim() else found[0] * found[1]


def _scale(builder: OnnxBuilder, node: OnnxNode) -> Tensor | None:
    """Return the constant scale of a DequantizeLinear: a number, or one per output channel."""
    if node.op_type != "DequantizeLinear" or node.attributes.get("axis", 0) or "block_size" in node.attributes:
        return None
    stored = builder.initializers.get(node.inputs[1])
    if stored is None:
        return None
    return torch.frombuffer(bytearray(stored.content), dtype=torch.float32).reshape(stored.shape)


def _widen(builder: OnnxBuilder, node: OnnxNode, scale: Tensor) -> None:
    codes, step = builder.initializers.get(node.inputs[0]), _scale(builder, node)
    if codes is None or codes.data_type not in _EIGHT_BITS or step is None:
        return
    numbers = torch.frombuffer(bytearray(codes.content), dtype=_EIGHT_BITS[codes.data_type]).float() * step
    wide = (numbers / scale).round()
    if not torch.equal(wide * scale, numbers) or bool((wide.abs() >= 2**24).any()):
        return
    content = wide.to(torch.int32).contiguous().view(torch.uint8).numpy().tobytes()
    name = builder.initializer(DataType.INT32, codes.shape, content, f"{node.inputs[0]}.int32")
    attributes = {"axis": 0} if scale.dim() else {}
    inputs = (name, builder.constant(scale, name=f"{name}.scale"))
    builder.nodes[builder.nodes.index(node)] = replace(node, inputs=inputs, attributes=attributes)
