"""Layers of several ops that are kept whole: recurrent layers, multi-head attention and transformers.

The inputs and all parameters of such a layer have formats; what it computes in between is in float. The counts
follow from the shapes of the parameters, by their names in the layer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial

from torch import nn

from chop.ops.attention import attention_count
from chop.ops.base import INNER, Call, Count, Factors, Op, Shape, numel
from chop.ops.spellings import data
from chop.ops.table import register_op


def _product(rows: int, left: str, right: str, shape: Shape) -> Count:
    """Count the product of `rows` rows with a matrix of this shape."""
    macs = rows * numel(shape)
    return Count(macs=macs, products=(Factors(left, right, macs, shape[-1]),) if macs else ())


def _recurrent(gates: int, multiplies: int, adds: int) -> Callable[[Call], Count | None]:
    """Return the count of a recurrent layer from its number of gates and its element-wise operations per unit."""

    def count(call: Call) -> Count | None:
        if "data_in_0" not in call.operands:
            return None  # a packed sequence
        steps = numel(call.operands["data_in_0"][:-1])
        total = Count()
        for name, shape in call.operands.items():
            if not name.startswith("weight"):
                continue
            left = "data_in_0" if name in ("weight_ih", "weight_ih_l0", "weight_ih_l0_reverse") else INNER
            total += _product(steps, left, name, shape)
            if name.startswith("weight_hh"):
                units = steps * shape[0] // gates
                total += Count(multiplies=multiplies * units, adds=adds * units)
        return total

    return count


# Per unit: an LSTM has five activations, c = f c + i g and h = o tanh(c). A GRU has three activations, r h in the
# new gate and h = (1 - z) n + z h. A plain RNN has one activation. Sums of both products are part of the MACs.
for _name, _modules, _count in (
    ("lstm", (nn.LSTM, nn.LSTMCell), _recurrent(gates=4, multiplies=3, adds=6)),
    ("gru", (nn.GRU, nn.GRUCell), _recurrent(gates=3, multiplies=3, adds=5)),
    ("rnn", (nn.RNN, nn.RNNCell), _recurrent(gates=1, multiplies=0, adds=1)),
):
    register_op(Op(_name, "module_related_func", data("data_in"), modules=_modules, count=_count, composite=True))


@dataclass(frozen=True)
class _Sequences:
    """Sequences that enter an attention: an input of the layer or a value inside it."""

    operand: str
    batch: int
    length: int
    width: int

    @classmethod
    def of(cls, call: Call, operand: str, batch_first: bool) -> _Sequences:
        shape = call.operands[operand]
        batch, length = (1, shape[0]) if len(shape) == 2 else shape[:2] if batch_first else (shape[1], shape[0])
        return cls(operand, batch, length, shape[-1])

    @property
    def rows(self) -> int:
        return self.batch * self.length

    def inside(self) -> _Sequences:
        """Return sequences of the same size that are computed inside the layer."""
        return replace(self, operand=INNER)


Shapes = Mapping[str, Shape]


def _attention(
    shapes: Shapes, prefix: str, heads: int, query: _Sequences, key: _Sequences, value: _Sequences, added: int = 0
) -> Count:
    """Count three input projections, attention in each head, and the output projection."""
    width = shapes[f"{prefix}out_proj.weight"][0]
    packed = f"{prefix}in_proj_weight"
    total = Count()
    for letter, source in zip("qkv", (query, key, value), strict=True):
        name = packed if packed in shapes else f"{prefix}{letter}_proj_weight"
        total += _product(source.rows, source.operand, name, (width, source.width))
    seen = key.length + added
    head: Shape = (query.batch, heads, query.length, width // heads)
    other: Shape = (query.batch, heads, seen, width // heads)
    inner = attention_count(head, other, other, head)
    total += replace(inner, products=tuple(each._replace(left=INNER, right=INNER) for each in inner.products))
    return total + _product(query.rows, INNER, f"{prefix}out_proj.weight", (width, width))


def _multihead_attention_count(call: Call) -> Count | None:
    if not {"data_in_0", "data_in_1", "data_in_2"} <= call.operands.keys():
        return None
    settings = call.attributes
    inputs = [_Sequences.of(call, f"data_in_{i}", settings["batch_first"]) for i in range(3)]
    added = ("bias_k" in call.operands) + settings["add_zero_attn"]
    query, key, value = inputs
    total = _attention(call.operands, "", settings["num_heads"], query, key, value, added)
    scores = query.rows * (key.length + added)
    if len(call.results) > 1 and numel(call.results[1]) == scores:  # the mean of the probabilities over the heads
        total += Count(adds=settings["num_heads"] * scores, multiplies=scores)
    return total


register_op(
    Op(
        "multihead_attention",
        "module_related_func",
        data("data_in", "query", "key", "value"),
        modules=(nn.MultiheadAttention,),
        attributes=dict.fromkeys(("num_heads", "batch_first", "add_zero_attn")),
        count=_multihead_attention_count,
        composite=True,
    )
)


def _norm(shapes: Shapes, name: str, rows: int, width: int) -> Count:
    """Count as `layer_norm`: mean and variance, then scale and shift."""
    steps = 5 + (f"{name}.weight" in shapes) + (f"{name}.bias" in shapes)
    return Count(multiplies=steps * rows * width)


def _feed_forward(shapes: Shapes, prefix: str, rows: int) -> Count:
    """Count both linear layers and the activation between them."""
    first, second = shapes[f"{prefix}linear1.weight"], shapes[f"{prefix}linear2.weight"]
    activation = Count(adds=rows * first[0])
    return (
        _product(rows, INNER, f"{prefix}linear1.weight", first)
        + activation
        + _product(rows, INNER, f"{prefix}linear2.weight", second)
    )


def _layer(shapes: Shapes, prefix: str, heads: int, x: _Sequences, memory: _Sequences | None = None) -> Count:
    """Count a layer of an encoder, or with `memory` of a decoder: each part has a residual sum and a norm."""
    total = _attention(shapes, f"{prefix}self_attn.", heads, x, x, x) + _feed_forward(shapes, prefix, x.rows)
    parts = 2
    if memory is not None:
        total += _attention(shapes, f"{prefix}multihead_attn.", heads, x.inside(), memory, memory)
        parts = 3
    for part in range(parts):
        total += _norm(shapes, f"{prefix}norm{part + 1}", x.rows, x.width) + Count(adds=x.rows * x.width)
    return total


def _stack(shapes: Shapes, prefix: str, heads: int, x: _Sequences, memory: _Sequences | None = None) -> Count:
    """Count the layers of an encoder or decoder, and the norm after them."""
    total, number = Count(), 0
    while f"{prefix}layers.{number}.linear1.weight" in shapes:
        total += _layer(shapes, f"{prefix}layers.{number}.", heads, x if number == 0 else x.inside(), memory)
        number += 1
    if f"{prefix}norm.weight" in shapes:
        total += _norm(shapes, f"{prefix}norm", x.rows, x.width)
    return total


def _whole(shapes: Shapes, prefix: str, heads: int, source: _Sequences, target: _Sequences) -> Count:
    """Count an encoder, and a decoder that attends to its result."""
    encoder = _stack(shapes, f"{prefix}encoder.", heads, source)
    return encoder + _stack(shapes, f"{prefix}decoder.", heads, target, memory=source.inside())


_TRANSFORMERS: tuple[tuple[str, type[nn.Module], tuple[str, ...], str, Callable[..., Count]], ...] = (
    ("transformer_encoder_layer", nn.TransformerEncoderLayer, ("src",), "self_attn", _layer),
    ("transformer_decoder_layer", nn.TransformerDecoderLayer, ("tgt", "memory"), "self_attn", _layer),
    ("transformer_encoder", nn.TransformerEncoder, ("src",), "layers.0.self_attn", _stack),
    ("transformer_decoder", nn.TransformerDecoder, ("tgt", "memory"), "layers.0.self_attn", _stack),
    ("transformer", nn.Transformer, ("src", "tgt"), "encoder.layers.0.self_attn", _whole),
)
"""Name, class, inputs, the path of the first attention, and how to count."""


def _transformer_count(path: str, num_inputs: int, count: Callable[..., Count], call: Call) -> Count | None:
    names = [f"data_in_{i}" for i in range(num_inputs)]
    settings = [call.attributes.get(f"{path}.{name}") for name in ("num_heads", "batch_first")]
    if None in settings or not call.operands.keys() >= set(names):
        return None  # layers that are not those of torch
    heads, batch_first = settings
    return count(call.operands, "", heads, *(_Sequences.of(call, name, bool(batch_first)) for name in names))


for _name, _module, _keywords, _path, _count in _TRANSFORMERS:
    register_op(
        Op(
            _name,
            "module_related_func",
            data("data_in", *_keywords),
            modules=(_module,),
            attributes=dict.fromkeys((f"{_path}.num_heads", f"{_path}.batch_first")),
            count=partial(_transformer_count, _path, len(_keywords), _count),
            composite=True,
        )
    )
