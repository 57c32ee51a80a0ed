"""Attention, and layers of several ops that contain it: multi-head attention and transformers."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from chop.exporting.onnx_graph.builder import Name
from chop.exporting.onnx_graph.call import OnnxCall, lowers

_ACTIVATIONS = {F.relu: "Relu", torch.relu: "Relu", F.gelu: "Gelu"}
_MASKS = (
    *("mask", "src_mask", "tgt_mask", "memory_mask", "src_key_padding_mask"),
    *("tgt_key_padding_mask", "memory_key_padding_mask"),
)


@lowers("scaled_dot_product_attention")
def _scaled_dot_product_attention(call: OnnxCall) -> Name:
    builder = call.builder
    query, key, value = (call.tensor(f"data_in_{i}") for i in range(3))
    if call.get("dropout_p", 0.0):
        raise call.refusal("it drops elements at random")
    width = call.static(call.shape()[-1], "the width of the queries")
    scale = call.get("scale")
    scale = width**-0.5 if scale is None else float(scale)
    if call.get("enable_gqa", False):
        key, value = (_repeat_heads(call, x, name) for x, name in ((key, "data_in_1"), (value, "data_in_2")))
    rank = call.rank("data_in_1")
    transposed = builder.node("Transpose", key, perm=[*range(rank - 2), rank - 1, rank - 2])
    scores = builder.node("MatMul", query, transposed)
    scores = builder.node("Mul", scores, builder.constant(scale))
    mask = call.get("attn_mask")
    if call.get("is_causal", False):
        lengths = [
            call.static(call.shape(f"data_in_{i}")[-2], "the length of a causal attention") for i in range(2)
        ]
        mask = torch.ones(lengths, dtype=torch.bool).tril()
    if mask is not None and mask.dtype is torch.bool:  # True keeps a score; for the layer below it removes one
        scores = builder.node("Where", call.value(mask), scores, builder.constant(float("-inf")))
    elif mask is not None:
        scores = builder.node("Add", scores, call.value(mask, torch.float32))
    return builder.node("MatMul", builder.node("Softmax", scores, axis=-1), value)


def _repeat_heads(call: OnnxCall, x: Name, name: str) -> Name:
    """Return keys or values with each head repeated for the queries that share it."""
    shape, builder = call.shape(name), call.builder
    heads = call.static(shape[-3], "the number of heads")
    times = call.static(call.shape()[-3], "the number of heads") // heads
    index = [i for i in range(heads) for _ in range(times)]
    return builder.node("Gather", x, builder.integers(*index), axis=len(shape) - 3)


@lowers("multihead_attention")
def _multihead_attention(call: OnnxCall) -> Any:
    inputs = [call.tensor(f"data_in_{i}") for i in range(3)]
    if call.rank() != 3:
        raise call.refusal("attention is exported for batches only")
    masks = (call.get("attn_mask"), call.get("key_padding_mask"))
    result, weights = _attend(call, call.module, "", inputs, masks)
    if not call.get("need_weights", True):
        return result, None
    if call.get("average_attn_weights", True):
        weights = call.builder.node("ReduceMean", weights, call.builder.integers(1), keepdims=0)
    return result, weights


def _attend(
    call: OnnxCall, layer: Any, prefix: str, inputs: list[Name], masks: tuple[Any, Any] = (None, None)
) -> tuple[Name, Name]:
    """Return the result of a multi-head attention, and its weights [batch, head, query, key]."""
    builder, heads, width = call.builder, int(layer.num_heads), int(layer.embed_dim)
    if not layer._qkv_same_embed_dim or layer.bias_k is not None or layer.add_zero_attn:
        raise call.refusal("attention is exported for keys and values as wide as queries, without added ones")
    if not layer.batch_first:
        inputs = [builder.node("Transpose", each, perm=[1, 0, 2]) for each in inputs]
    weights = _thirds(call, f"{prefix}in_proj_weight", width)
    biases = _thirds(call, f"{prefix}in_proj_bias", width) if call.has(f"{prefix}in_proj_bias") else None
    parts = []
    for i, x in enumerate(inputs):
        part = builder.node("MatMul", x, builder.node("Transpose", weights[i], perm=[1, 0]))
        part = part if biases is None else builder.node("Add", part, biases[i])
        part = builder.reshape(part, [0, 0, heads, width // heads])
        parts.append(builder.node("Transpose", part, perm=[0, 2, 3, 1] if i == 1 else [0, 2, 1, 3]))
    query = builder.node("Mul", parts[0], builder.constant((width // heads) ** -0.5))
    scores = _masked(call, builder.node("MatMul", query, parts[1]), masks)
    shares = builder.node("Softmax", scores, axis=-1)
    joined = builder.node("Transpose", builder.node("MatMul", shares, parts[2]), perm=[0, 2, 1, 3])
    result = _linear(call, builder.reshape(joined, [0, 0, width]), f"{prefix}out_proj.")
    return (result if layer.batch_first else builder.node("Transpose", result, perm=[1, 0, 2])), shares


def _thirds(call: OnnxCall, name: str, width: int) -> tuple[Name, ...]:
    return call.builder.node_with_outputs(
        "Split", 3, call.tensor(name), call.builder.integers(width, width, width), axis=0
    )


def _masked(call: OnnxCall, scores: Name, masks: tuple[Any, Any]) -> Name:
    builder, (mask, padding) = call.builder, masks
    lowest = builder.constant(float("-inf"))
    if mask is not None:
        if len(mask.shape) != 2:
            raise call.refusal("attention is exported with a mask of two dimensions")
        is_bool = mask.dtype is torch.bool
        name = call.value(mask)
        scores = builder.node("Where", name, lowest, scores) if is_bool else builder.node("Add", scores, name)
    if padding is not None:
        if padding.dtype is not torch.bool:
            raise call.refusal("attention is exported with a padding mask of truth values")
        wide = builder.node("Unsqueeze", call.value(padding), builder.integers(1, 2))
        scores = builder.node("Where", wide, lowest, scores)
    return scores


def _linear(call: OnnxCall, x: Name, prefix: str) -> Name:
    builder = call.builder
    weight = builder.node("Transpose", call.tensor(f"{prefix}weight"), perm=[1, 0])
    product = builder.node("MatMul", x, weight)
    return builder.node("Add", product, call.tensor(f"{prefix}bias")) if call.has(f"{prefix}bias") else product


def _norm(call: OnnxCall, layer: nn.LayerNorm | None, x: Name, prefix: str) -> Name:
    if layer is None:
        return x
    operands = [call.tensor(f"{prefix}weight"), *([call.tensor(f"{prefix}bias")] if layer.bias is not None else [])]
    return call.builder.node("LayerNormalization", x, *operands, axis=-1, epsilon=float(layer.eps))


def _feed_forward(call: OnnxCall, layer: Any, x: Name, prefix: str) -> Name:
    inner, function = _linear(call, x, f"{prefix}linear1."), layer.activation
    op_type = _ACTIVATIONS.get(function) or {nn.ReLU: "Relu", nn.GELU: "Gelu"}.get(type(function))
    if op_type is None:
        raise call.refusal("transformer layers are exported with the activations relu and gelu")
    return _linear(call, call.builder.node(op_type, inner), f"{prefix}linear2.")


def _block(call: OnnxCall, layer: Any, x: Name, memory: Name | None, prefix: str) -> Name:
    """Return the result of an encoder layer, or with `memory` of a decoder layer."""

    def attention(name: str) -> Any:
        def run(y: Name) -> Name:
            inputs = [y, y, y] if name == "self_attn" else [y, str(memory), str(memory)]
            return _attend(call, getattr(layer, name), f"{prefix}{name}.", inputs)[0]

        return run

    steps = [attention("self_attn"), *([attention("multihead_attn")] if memory is not None else [])]
    steps.append(lambda y: _feed_forward(call, layer, y, prefix))
    for number, step in enumerate(steps, 1):
        norm, label = getattr(layer, f"norm{number}"), f"{prefix}norm{number}."
        if layer.norm_first:
            x = call.builder.node("Add", x, step(_norm(call, norm, x, label)))
        else:
            x = _norm(call, norm, call.builder.node("Add", x, step(x)), label)
    return x


def _stack(call: OnnxCall, stack: Any, x: Name, memory: Name | None, prefix: str) -> Name:
    for i, layer in enumerate(stack.layers):
        x = _block(call, layer, x, memory, f"{prefix}layers.{i}.")
    return _norm(call, stack.norm, x, f"{prefix}norm.")


@lowers(
    *("transformer_encoder_layer", "transformer_decoder_layer", "transformer_encoder", "transformer_decoder"),
    "transformer",
)
def _transformer(call: OnnxCall) -> Name:
    if any(call.arguments.get(name) is not None for name in _MASKS) or call.rank() != 3:
        raise call.refusal("transformer layers are exported for batches without masks")
    first = call.tensor("data_in_0")
    second = call.tensor("data_in_1") if call.has("data_in_1") else None
    match call.op.name:
        case "transformer":
            memory = _stack(call, call.module.encoder, first, None, "encoder.")
            return _stack(call, call.module.decoder, str(second), memory, "decoder.")
        case "transformer_encoder" | "transformer_decoder":
            return _stack(call, call.module, first, second, "")
        case _:
            return _block(call, call.module, first, second, "")
