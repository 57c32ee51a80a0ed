"""From a graph whose formats are resolved to its integer program: the instructions of each op."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, fx

from chop.hardware.program.builder import (
    MOVES,
    PASSED_ON,
    PendingFunction,
    ProgramBuilder,
    bound_operands,
    plain_target,
)
from chop.hardware.program.instructions import Rearrange, Rectify, WindowMaximum, linear_map
from chop.hardware.program.number_formats import data_signal, parameter_integers
from chop.hardware.program.program import Program
from chop.hardware.program.signal import IntArray, Signal, concatenate
from chop.hardware.program.windows import Windows
from chop.ir import MaseGraph, NodeMeta
from chop.ir.graph.in_place import overwrites_shared_memory
from chop.nn.quantized import QuantizedLayer

MAX_TABLE_WIDTH = 12
"""The widest input of a function that becomes a table."""


def lower(graph: MaseGraph) -> Program:
    """Return the integer program of a graph for one row; an error names the node that has none."""
    builder = ProgramBuilder(graph)
    result = None
    for meta in graph.annotated_metas():
        node = meta.node
        if node.op == "placeholder":
            builder.add_input(meta)
        elif node.op == "output":
            if not isinstance(node.args[0], fx.Node):
                raise ValueError("hardware needs a model that returns one tensor")
            result = builder.aligned(builder.read(meta, node.args[0]))
        elif node.op == "get_attr":
            continue  # the node that reads it says that hardware does not support it
        elif meta.mase_op in _LOWERINGS:
            if overwrites_shared_memory(node):
                raise ValueError(f"node '{node.name}' overwrites a tensor that is read later; use inplace = False")
            _LOWERINGS[meta.mase_op](builder, meta)
        elif meta.mase_op in ("softmax", "log_softmax"):
            raise ValueError(
                f"node '{node.name}' ({meta.mase_op}) divides by a sum of exponentials, which has no exact "
                "integers; hardware supports it only at the end of a network, where it is left out"
            )
        else:
            known = ", ".join(_LOWERINGS)
            raise ValueError(
                f"node '{node.name}' calls '{meta.mase_op}', which hardware does not support; supported: {known}"
            )
    assert result is not None, "a graph ends with its output"
    return Program(builder.instructions, result)


def _layer(meta: NodeMeta, parameters: tuple[str, ...]) -> QuantizedLayer:
    """Return the quantised layer of a node; raise an error if it calls a function, or is not quantised."""
    layer = meta.quantized
    if not isinstance(layer, QuantizedLayer):
        kind = "calls a function, whose weights hardware does not support" if meta.module is None else "is in float"
        raise ValueError(f"node '{meta.node.name}' ({meta.mase_op}) {kind}; {format_hint(meta)}")
    missing = [name for name in parameters if getattr(layer, name) is not None and name not in layer.formats]
    if missing:
        raise ValueError(f"node '{meta.node.name}' ({meta.mase_op}): {missing[0]} is in float; {format_hint(meta)}")
    return layer


def format_hint(meta: NodeMeta) -> str:
    """Return how to give a node a format."""
    roles = "data_in", "weight", "bias"
    keys = ", ".join(f"{role}_width = 8, {role}_frac_width = 4" for role in roles if _has_role(meta, role))
    return f'quantise it with [passes.quantize.{meta.mase_op}.config] name = "integer", {keys}'


def _has_role(meta: NodeMeta, role: str) -> bool:
    return any(operand.role == role for operand in meta.operands.values())


def _parameters(meta: NodeMeta, size: int) -> tuple[IntArray, IntArray, IntArray, IntArray]:
    """Return weight and bias as integers with their fraction bits; a missing bias is `size` zeros."""
    layer = _layer(meta, ("weight", "bias"))
    weight, weight_frac = parameter_integers(meta, "weight")
    if layer.bias is None:
        return weight, weight_frac, np.zeros(size, dtype=np.int64), np.zeros((), dtype=np.int64)
    return weight, weight_frac, *parameter_integers(meta, "bias")


def _linear(builder: ProgramBuilder, meta: NodeMeta) -> None:
    read, source = builder.operand(meta)
    outputs, inputs = (int(n) for n in _layer(meta, ()).weight.shape)  # type: ignore[union-attr]
    weight, weight_frac, bias, bias_frac = _parameters(meta, outputs)
    rows = source.numel // inputs
    blocks = [
        (
            weight, weight_frac, bias, bias_frac,
            np.arange(rows * inputs).reshape(rows, inputs), np.arange(rows * outputs).reshape(rows, outputs),
        )
    ]  # fmt: skip
    shape = (*source.shape[:-1], outputs)
    builder.finish(meta, linear_map(meta.node.name, (read,), source, blocks, shape, "linear"))


def _convolution(builder: ProgramBuilder, meta: NodeMeta) -> None:
    read, source = builder.operand(meta)
    layer: Any = _layer(meta, ("weight", "bias"))
    windows = Windows.of_convolution(layer, source.shape, meta.node.name)
    channels = layer.out_channels
    weight, weight_frac, bias, bias_frac = _parameters(meta, channels)
    flat = weight.reshape(channels, -1)
    frac = np.broadcast_to(weight_frac, weight.shape).reshape(channels, -1)
    bias_frac = np.broadcast_to(bias_frac, bias.shape)
    per_group = channels // layer.groups
    blocks = []
    for group in range(layer.groups):
        own = slice(group * per_group, (group + 1) * per_group)
        reads = windows.reads_of_group(group, layer.groups)
        blocks.append((flat[own], frac[own], bias[own], bias_frac[own], reads, windows.writes(own)))
    shape = (channels, *windows.output_size)
    builder.finish(meta, linear_map(meta.node.name, (read,), source, blocks, shape, "conv", windows.shape))


def _batch_norm(builder: ProgramBuilder, meta: NodeMeta) -> None:
    layer: Any = _layer(meta, ("weight", "bias"))
    if bool((layer.running_mean != 0).any()) or bool((layer.running_var + layer.eps != 1).any()):
        raise ValueError(
            f"node '{meta.node.name}': its statistics are not part of its weights yet; "
            "run resolve_formats_transform_pass first"
        )
    read, source = builder.operand(meta)
    weight, weight_frac, bias, bias_frac = _parameters(meta, layer.num_features)
    weight_frac, bias_frac = np.broadcast_to(weight_frac, weight.shape), np.broadcast_to(bias_frac, bias.shape)
    places = np.arange(source.numel).reshape(source.shape[0], -1)
    blocks = []
    for c in range(layer.num_features):
        at = places[c][:, None]
        channel = slice(c, c + 1)
        block = (weight[channel, None], weight_frac[channel, None], bias[channel], bias_frac[channel], at, at)
        blocks.append(block)
    builder.finish(meta, linear_map(meta.node.name, (read,), source, blocks, source.shape, "affine"))


def _relu(builder: ProgramBuilder, meta: NodeMeta) -> None:
    read, source = builder.operand(meta)
    out = replace(source, low=np.maximum(source.low, 0), high=np.maximum(source.high, 0))
    builder.finish(meta, Rectify(name=meta.node.name, node=meta.node.name, reads=(read,), out=out))


def _max_pool(builder: ProgramBuilder, meta: NodeMeta) -> None:
    read, source = builder.operand(meta)
    windows = Windows.of_pool(meta, source.shape)
    index = windows.without_padding(meta.node.name)
    taken = source.take(index)
    shape = (source.shape[0], *windows.output_size)
    if (taken.frac != taken.frac[:, :1]).any():
        raise ValueError(f"node '{meta.node.name}': the elements of a window have different fraction bits")
    bounds = taken.frac[:, 0], taken.low.max(axis=1), taken.high.max(axis=1)
    name, out = meta.node.name, Signal(*(each.reshape(shape) for each in bounds))
    maximum = WindowMaximum(name=name, node=name, reads=(read,), out=out, windows=index, window=windows.shape)
    builder.finish(meta, maximum)


def _average_pool(builder: ProgramBuilder, meta: NodeMeta) -> None:
    read, source = builder.operand(meta)
    windows = Windows.of_pool(meta, source.shape)
    size = windows.divisor(meta.node.name)
    if size & (size - 1):
        raise ValueError(
            f"node '{meta.node.name}': a mean of {size} elements needs a quantised reciprocal; "
            "run resolve_formats_transform_pass first"
        )
    channels = source.shape[0]
    ones = np.ones((1, windows.reads.shape[1]), dtype=np.int64)
    none = np.zeros(1, dtype=np.int64)
    frac = np.full_like(ones, size.bit_length() - 1)
    blocks = [
        (ones, frac, none, none, windows.reads_of_group(c, channels), windows.writes(slice(c, c + 1)))
        for c in range(channels)
    ]
    shape = (channels, *windows.output_size)
    builder.finish(meta, linear_map(meta.node.name, (read,), source, blocks, shape, "sum", windows.shape))


def _add(builder: ProgramBuilder, meta: NodeMeta) -> None:
    if meta.node.kwargs.get("alpha", 1) != 1:
        raise ValueError(f"node '{meta.node.name}': hardware adds tensors without a factor 'alpha'")
    (left, first), (right, second) = (builder.operand(meta, name) for name in ("data_in_0", "data_in_1"))
    if first.shape != second.shape:
        raise ValueError(
            f"node '{meta.node.name}': hardware adds tensors of one shape, not {first.shape} and {second.shape}"
        )
    n = first.numel
    both = concatenate((first, second))
    difference = first.frac.ravel() - second.frac.ravel()
    ones, none = np.ones((1, 2), dtype=np.int64), np.zeros(1, dtype=np.int64)
    blocks = []
    for value in np.unique(difference):
        for frac in np.unique(first.frac.ravel()[difference == value]):
            at = np.flatnonzero((difference == value) & (first.frac.ravel() == frac))
            blocks.append((ones, np.zeros_like(ones), none, none, np.stack([at, at + n], axis=1), at[:, None]))
    builder.finish(meta, linear_map(meta.node.name, (left, right), both, blocks, first.shape, "sum"))


def _move(builder: ProgramBuilder, meta: NodeMeta) -> None:
    """Lower an op that moves elements, by applying it to their numbers."""
    sources = [(name, value) for name, _, value in bound_operands(meta) if isinstance(value, fx.Node)]
    reads, signals = zip(*(builder.operand(meta, name) for name, _ in sources), strict=True)
    start, numbers = 0, []
    for (_, source), signal in zip(sources, signals, strict=True):
        numbers.append((source, torch.arange(start, start + signal.numel).reshape(1, *signal.shape)))
        start += signal.numel
    index = _apply(meta, numbers, start).numpy().astype(np.int64)
    name, out = meta.node.name, concatenate(signals).take(index)
    builder.finish(meta, Rearrange(name=name, node=name, reads=reads, out=out, index=index.ravel()))


def _apply(meta: NodeMeta, numbers: Sequence[tuple[fx.Node, Tensor]], elements: int) -> Tensor:
    """Return what a node that moves elements does with numbered elements of one row, operand by operand."""
    node = meta.node
    rows = next(iter(node.all_input_nodes)).meta["mase"].results["data_out_0"].shape[0]
    remaining = list(numbers)

    def given(value: Any) -> Any:
        if isinstance(value, fx.Node):
            if remaining and value is remaining[0][0]:
                _, own = remaining.pop(0)
                return torch.cat([own + row * elements for row in range(rows)])
            raise ValueError(
                f"node '{node.name}' uses the result of '{value.name}' as a size; hardware supports constant sizes "
                "only, such as flatten(1)"
            )
        return value

    args, kwargs = fx.node.map_arg(node.args, given), fx.node.map_arg(node.kwargs, given)
    moved: Tensor = plain_target(meta)(*args, **kwargs)
    if len(moved) != rows or any((row - number * elements).ne(moved[0]).any() for number, row in enumerate(moved)):
        raise ValueError(f"node '{node.name}' moves elements from one row to another; hardware computes row by row")
    return moved[0]


def _pass_on(builder: ProgramBuilder, meta: NodeMeta) -> None:
    builder.values[meta.node], _ = builder.operand(meta)


def _function(builder: ProgramBuilder, meta: NodeMeta) -> None:
    """Lower a function of single elements to a table; `exp`, which never has a format, reads the one before it."""
    if data_signal(meta, "data_in_0", ()) is None and _has_role(meta, "data_in"):
        raise ValueError(f"node '{meta.node.name}' ({meta.mase_op}) is in float; {format_hint(meta)}")
    read = builder.aligned(builder.operand(meta)[0])
    source = builder.instructions[read].out
    low, high = int(source.low.min()), int(source.high.max())
    if source.width > MAX_TABLE_WIDTH:
        raise ValueError(
            f"node '{meta.node.name}': a table of '{meta.mase_op}' for {source.width} bits is too large; "
            f"at most {MAX_TABLE_WIDTH} bits are supported"
        )
    inputs = torch.from_numpy(np.ldexp(np.arange(low, high + 1, dtype=np.float64), -int(source.frac.flat[0])))
    pending = PendingFunction(meta, read, inputs.float())
    if data_signal(meta, "data_out_0", source.shape) is not None:
        pending.become_table(builder, None, "")
    else:
        builder.functions[meta.node] = pending


_LOWERINGS: dict[str, Callable[[ProgramBuilder, NodeMeta], None]] = {
    "linear": _linear,
    "conv2d": _convolution,
    "conv1d": _convolution,
    "batch_norm1d": _batch_norm,
    "batch_norm2d": _batch_norm,
    "relu": _relu,
    "max_pool2d": _max_pool,
    "avg_pool2d": _average_pool,
    "adaptive_avg_pool2d": _average_pool,
    "add": _add,
    **dict.fromkeys(("cat", *MOVES), _move),
    **dict.fromkeys(PASSED_ON, _pass_on),
    **dict.fromkeys(
        ("sigmoid", "tanh", "gelu", "silu", "selu", "softplus", "softsign", "hardtanh", "leaky_relu", "exp"),
        _function,
    ),
}
