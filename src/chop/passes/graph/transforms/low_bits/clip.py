"""Scales and fraction bits with the least error of the output."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from chop.formats import Format
from chop.formats.integer import Integer
from chop.ir import MaseGraph, NodeMeta
from chop.nn.quantized import QuantizedLayer, plain_layer
from chop.passes.base import PassResult, register_pass
from chop.passes.graph.transforms.low_bits.layers import (
    CalibrationArgs,
    LayerProblem,
    change_layers,
    gain,
    set_parameters,
)
from chop.passes.graph.transforms.low_bits.matrices import from_matrices
from chop.passes.graph.transforms.low_bits.walk import Walk
from chop.statistics.deviation import Deviation

_NUM_LIMITS = 40
_MAX_ELEMENTS = 2**20
"""Elements of a layer's input with which its limit is chosen."""


@dataclass(frozen=True)
class ClipArgs(CalibrationArgs):
    """Arguments of `clip`."""

    weights: bool = True
    """Whether the scales or fraction bits of weights are chosen."""
    activations: bool = True
    """Whether the scales or fraction bits of layer inputs are chosen, if they are the same in each call."""
    unsigned: bool = True
    """Whether inputs that are never negative, such as those after a ReLU, may become unsigned integers."""


@register_pass("clip", kind="transform")
def clip_transform_pass(graph: MaseGraph, args: ClipArgs) -> PassResult:
    """Choose scales, or fraction bits, such that the outputs of layers have the least error.

    A smaller scale rounds most values better, and saturates a few. Weights that share a scale are clipped together;
    a fixed-point format gets other fraction bits; an input gets a fixed scale. `info["layers"]` has the
    signal-to-noise ratio of each layer's output in dB, before and after.
    """

    def choose(meta: NodeMeta, walk: Walk, outputs: list[Any]) -> dict[str, Any]:
        layer = meta.quantized
        assert isinstance(layer, QuantizedLayer), "only quantised layers are in the list"
        inputs = _some(walk.inputs(meta.node))
        plain = plain_layer(layer)
        expected = [plain(x) for x in inputs]
        before = _decibels(layer, inputs, expected)
        if args.activations:
            _choose_for_input(layer, inputs, args.unsigned)
        if args.weights:
            _choose_for_weight(meta, LayerProblem.of(meta, walk))
            _choose_for_bias(meta)
        meta.note_formats()
        found = gain(before, _decibels(meta.quantized, inputs, expected))
        return {**found, **{name: str(each) for name, each in layer.formats.items()}}

    return graph, change_layers(graph, args, "clip", choose)


def _some(inputs: list[Tensor]) -> list[Tensor]:
    """Return the first inputs, with a limited number of elements in total."""
    per_row = max(1, inputs[0][:1].numel())
    kept = [x[: max(1, _MAX_ELEMENTS // per_row)] for x in inputs]
    enough = max(1, _MAX_ELEMENTS // max(1, kept[0].numel()))
    return kept[:enough]


def _decibels(layer: Any, inputs: list[Tensor], expected: list[Tensor]) -> float:
    deviation = Deviation()
    for x, y in zip(inputs, expected, strict=True):
        deviation.add(y, layer(x))
    return deviation.sqnr_db


def _choose_for_input(layer: QuantizedLayer, inputs: list[Tensor], unsigned: bool) -> None:
    """Set the format, or the fixed scale, of a layer's input."""
    number_format = layer.formats.get("data_in_0")
    if number_format is None:
        return
    largest = max(float(x.abs().max()) for x in inputs)
    if unsigned and isinstance(number_format, Integer) and not any(bool((x < 0).any()) for x in inputs):
        number_format = replace(number_format, is_signed=False)
    importance = _importance(layer)

    def error(candidate: Format, scale: float | None) -> float:
        given = None if scale is None else torch.tensor(scale, dtype=inputs[0].dtype)
        return sum(float(((candidate(x, given) - x).square() * importance).sum()) for x in inputs)

    best = _best(number_format, largest, error)
    if best is not None:
        layer.formats = {**layer.formats, "data_in_0": best[0]}
        if best[1] is not None:
            layer.fix_scale("data_in_0", best[1])


def _importance(layer: Any) -> Tensor:
    """Return the sum of the squared weights of each input channel, in a shape that broadcasts against the input."""
    weight: Tensor = layer.weight.detach()
    if layer.op.name == "linear_transposed":
        return weight.square().sum(1)
    if layer.op.name == "linear":
        return weight.square().sum(0)
    per_channel = weight.square().flatten(2).sum(2).reshape(layer.groups, -1, weight.shape[1]).sum(1).flatten()
    return per_channel.reshape(-1, *[1] * (weight.dim() - 2))


def _choose_for_weight(meta: NodeMeta, problem: LayerProblem) -> None:
    """Clip the weights of groups that share a scale, or set the fraction bits of all."""
    layer, number_format = problem.layer, problem.number_format
    if layer.scale_of("weight") is None and number_format.values_depend_on_data:
        reference = problem.fixed_scales(search=True).reference
        if reference is not None:
            set_parameters(meta, {"weight": from_matrices(layer, problem.no_worse(reference))})
        return

    def error(candidate: Format, scale: float | None) -> float:
        given = None if scale is None else torch.tensor(scale, dtype=problem.weight.dtype)
        return float(problem.error(candidate(problem.weight, given)).sum())

    best = _best(number_format, float(problem.weight.abs().max()), error)
    if best is not None:
        layer.formats = {**layer.formats, "weight": best[0]}
        if best[1] is not None:
            layer.fix_scale("weight", best[1])


def _choose_for_bias(meta: NodeMeta) -> None:
    """Set the fraction bits of a bias."""
    layer: Any = meta.module
    if layer.bias is None or "bias" not in layer.formats:
        return
    bias: Tensor = layer.bias.detach()

    def error(candidate: Format, scale: float | None) -> float:
        given = None if scale is None else torch.tensor(scale, dtype=bias.dtype)
        return float((candidate(bias, given) - bias).square().sum())

    best = _best(layer.formats["bias"], float(bias.abs().max()), error)
    if best is not None and best[1] is None:
        layer.formats = {**layer.formats, "bias": best[0]}


def _best(number_format: Format, largest: float, error: Any) -> tuple[Format, float | None] | None:
    """Return the format and the scale with the least error; None if the format has neither to choose."""
    candidates = list(dict.fromkeys(_candidates(number_format, largest)))
    if not candidates:
        return None
    errors = [error(*each) for each in candidates]
    return candidates[errors.index(min(errors))]


def _candidates(number_format: Format, largest: float) -> Iterator[tuple[Format, float | None]]:
    """Yield the format with limits from `largest` downwards, as fraction bits or a scale."""
    for i in range(_NUM_LIMITS):
        limit = largest * 2 ** (-i / 8)
        scale, fitted = number_format.scale_for(limit), number_format.fitted(limit)
        if scale is not None or fitted is not number_format:
            yield fitted, scale
