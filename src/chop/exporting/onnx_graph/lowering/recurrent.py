"""Recurrent layers: LSTM, GRU and plain RNN, and their cells."""

from __future__ import annotations

from typing import Any

from torch import nn

from chop.exporting.onnx_graph.builder import Name
from chop.exporting.onnx_graph.call import OnnxCall, lowers

_ORDERS = {"lstm": (0, 3, 1, 2), "gru": (1, 0, 2), "rnn": (0,)}
"""The gates of PyTorch in the order of ONNX: an LSTM has i, f, g, o in PyTorch and i, o, f, g in ONNX."""
_OPS = {"lstm": "LSTM", "gru": "GRU", "rnn": "RNN"}


def _gates(call: OnnxCall, name: str, hidden: int) -> Name:
    """Return a parameter with its gates in the order of ONNX."""
    order = _ORDERS[call.op.name]
    x = call.tensor(name)
    if len(order) == 1:
        return x
    sizes = call.builder.integers(*[hidden] * len(order))
    parts = call.builder.node_with_outputs("Split", len(order), x, sizes, axis=0)
    return call.builder.node("Concat", *(parts[i] for i in order), axis=0)


def _directions(call: OnnxCall, names: list[str], hidden: int) -> Name:
    """Return a parameter of all directions, in a new first dimension."""
    builder = call.builder
    parts = [builder.node("Unsqueeze", _gates(call, name, hidden), builder.integers(0)) for name in names]
    return builder.node("Concat", *parts, axis=0) if len(parts) > 1 else parts[0]


def _bias(call: OnnxCall, suffixes: list[str], hidden: int) -> Name:
    """Return both biases of all directions, side by side."""
    builder = call.builder
    both = [_directions(call, [f"bias_{kind}{suffix}" for suffix in suffixes], hidden) for kind in ("ih", "hh")]
    return builder.node("Concat", *both, axis=1)


def _layer(call: OnnxCall, x: Name, suffixes: list[str], hidden: int) -> tuple[Name, ...]:
    """Return the outputs of one layer: [length, directions, batch, hidden], and its last states."""
    weights = [
        _directions(call, [f"weight_{kind}{suffix}" for suffix in suffixes], hidden) for kind in ("ih", "hh")
    ]
    has_bias = call.has(f"bias_ih{suffixes[0]}")
    bias = [_bias(call, suffixes, hidden)] if has_bias else []
    attributes: dict[str, Any] = {
        "hidden_size": hidden,
        "direction": "bidirectional" if len(suffixes) == 2 else "forward",
    }
    if call.op.name == "gru":
        attributes["linear_before_reset"] = 1
    if call.op.name == "rnn":
        attributes["activations"] = ["Relu" if call.get("nonlinearity", "tanh") == "relu" else "Tanh"] * len(
            suffixes
        )
    count = 3 if call.op.name == "lstm" else 2
    return call.builder.node_with_outputs(_OPS[call.op.name], count, x, *weights, *bias, **attributes)


@lowers("lstm", "gru", "rnn")
def _recurrent(call: OnnxCall) -> Any:
    layer, builder = call.module, call.builder
    if call.get("hx") is not None or call.get("proj_size", 0):
        raise call.refusal("recurrent layers are exported without an initial state and without projections")
    hidden = int(layer.hidden_size)
    x = call.tensor("data_in_0")
    if isinstance(layer, nn.RNNCellBase):
        return _cell(call, x, hidden)
    if call.rank() != 3:
        raise call.refusal("recurrent layers are exported for batches only")
    if layer.batch_first:
        x = builder.node("Transpose", x, perm=[1, 0, 2])
    directions = ["", "_reverse"] if layer.bidirectional else [""]
    states: list[tuple[Name, ...]] = []
    for depth in range(layer.num_layers):
        y, *last = _layer(call, x, [f"_l{depth}{suffix}" for suffix in directions], hidden)
        states.append(tuple(last))
        swapped = builder.node("Transpose", y, perm=[0, 2, 1, 3])
        x = builder.reshape(swapped, [0, 0, len(directions) * hidden])
    if layer.batch_first:
        x = builder.node("Transpose", x, perm=[1, 0, 2])
    last_states = [builder.node("Concat", *parts, axis=0) for parts in zip(*states, strict=True)]
    return x, tuple(last_states) if call.op.name == "lstm" else last_states[0]


def _cell(call: OnnxCall, x: Name, hidden: int) -> Any:
    """Return the result of one step, from zeros."""
    builder = call.builder
    sequence = builder.node("Unsqueeze", x, builder.integers(0))
    _, *last = _layer(call, sequence, [""], hidden)
    states = tuple(builder.node("Squeeze", each, builder.integers(0)) for each in last)
    return states if call.op.name == "lstm" else states[0]
