"""Scales and fraction bits with the least error of the output."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from torch import Tensor

from chop.formats import Format
from chop.formats.integer import Integer
from chop.hardware.resolve.layers import replace_layer, with_parameters
from chop.ir import MaseGraph, NodeMeta
from chop.nn.quantized import QuantizedLayer, plain_layer
from chop.passes.base import PassResult, register_pass
from chop.passes.graph.transforms.low_bits.layer_problem import LayerProblem
from chop.passes.graph.transforms.low_bits.layers import (
    CalibrationArgs,
    FloatValues,
    change_layers,
    gain,
    set_matrices,
)
from chop.passes.graph.transforms.low_bits.neighbours import activation_after
from chop.passes.graph.transforms.low_bits.walk import Walk
from chop.statistics.deviation import Deviation

_NUM_LIMITS = 40
_MAX_ELEMENTS = 2**19
"""Elements of a layer's input with which its limit is chosen."""


Compute = Callable[[Tensor], Tensor]


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
    a fixed-point format gets other fraction bits; an input gets a fixed scale. Outputs are compared after the
    normalisation and the activation that follow a layer: what a ReLU sets to zero need not be exact.
    `info["layers"]` has their signal-to-noise ratio in dB, before and after.
    """

    def choose(meta: NodeMeta, walk: Walk, in_float: FloatValues) -> dict[str, Any]:
        layer = meta.quantized
        assert isinstance(layer, QuantizedLayer), "only quantised layers are in the list"
        inputs, after = _some(walk.inputs(meta.node)), activation_after(meta.node)
        plain = plain_layer(layer)
        expected = [after(plain(x)) for x in inputs]
        before, restore = _decibels(lambda x: after(layer(x)), inputs, expected), _restore(meta, layer)
        if args.activations:
            _choose_for_input(layer, inputs, expected, lambda x: after(plain(x)), args.unsigned)
        if args.weights:
            _choose_for_weight(LayerProblem.of(meta, walk))
            _choose_for_bias(meta.module)
        meta.note_formats()
        new: Any = meta.module
        found = gain(before, _decibels(lambda x: after(new(x)), inputs, expected))
        if found["gain_db"] < 0:  # input and weight were chosen one by one, and may not suit each other
            restore()
            new, found = meta.module, gain(before, before)
        return {**found, **{name: str(each) for name, each in new.formats.items()}}

    return graph, change_layers(graph, args, "clip", choose, compare=False)


def _restore(meta: NodeMeta, layer: QuantizedLayer) -> Callable[[], None]:
    """Return a function that gives a node its layer as it is now."""
    old = with_parameters(layer, {})
    scales = [(scale, scale.clone()) for name in layer.formats if (scale := layer.scale_of(name)) is not None]

    def restore() -> None:
        for scale, value in scales:  # learned ones are shared, and changed in place
            scale.copy_(value)
        replace_layer(meta, old)

    return restore


def _some(inputs: list[Tensor]) -> list[Tensor]:
    """Return the first inputs, with a limited number of elements in total."""
    per_row = max(1, inputs[0][:1].numel())
    kept = [x[: max(1, _MAX_ELEMENTS // per_row)] for x in inputs]
    enough = max(1, _MAX_ELEMENTS // max(1, kept[0].numel()))
    return kept[:enough]


def _decibels(compute: Compute, inputs: list[Tensor], expected: list[Tensor]) -> float:
    deviation = Deviation()
    for x, y in zip(inputs, expected, strict=True):
        deviation.add(y, compute(x))
    return deviation.sqnr_db


def _choose_for_input(
    layer: QuantizedLayer, inputs: list[Tensor], expected: list[Tensor], compute: Compute, unsigned: bool
) -> None:
    """Set the format, or the fixed scale, of a layer's input; `compute` is the layer without rounding."""
    number_format = layer.formats.get("data_in_0")
    if number_format is None:
        return
    if unsigned:
        number_format = with_sign(number_format, inputs)

    def error(rounded: Compute) -> float:
        pairs = zip(inputs, expected, strict=True)
        return sum(float((compute(rounded(x)) - y).square().sum()) for x, y in pairs)

    largest = max(float(x.abs().max()) for x in inputs)
    _choose(layer, "data_in_0", candidates(number_format, largest), inputs[0], error)


def _choose_for_weight(problem: LayerProblem) -> None:
    """Clip the weights of groups that share a scale, or set the fraction bits of all."""
    layer, number_format, original = problem.layer, problem.number_format, problem.original
    if layer.scale_of("weight") is None and number_format.values_depend_on_data:
        reference = problem.fixed_scales(True, original).reference
        if reference is not None:
            set_matrices(problem, *problem.no_worse(reference))
        return

    def error(rounded: Compute) -> float:
        return float(problem.moments.squared_error(rounded(original), original).sum())

    _choose(layer, "weight", candidates(number_format, float(original.abs().max())), original, error)


def _choose_for_bias(layer: Any) -> None:
    """Set the fraction bits of a bias."""
    if layer.bias is None or "bias" not in layer.formats:
        return
    bias: Tensor = layer.bias.detach()
    found = candidates(layer.formats["bias"], float(bias.abs().max()))
    without_scale = [(number_format, scale) for number_format, scale in found if scale is None]
    _choose(layer, "bias", without_scale, bias, lambda rounded: float((rounded(bias) - bias).square().sum()))


def _choose(
    layer: QuantizedLayer,
    name: str,
    found: Sequence[tuple[Format, float | None]],
    like: Tensor,
    error: Callable[[Compute], float],
) -> None:
    """Set the format and the fixed scale of an operand that have the least error, if there are any to choose."""
    if not found:
        return

    def error_of(candidate: tuple[Format, float | None]) -> float:
        number_format, scale = candidate
        given = None if scale is None else like.new_tensor(scale)
        return error(lambda x: number_format(x, given))

    best, scale = min(found, key=error_of)
    layer.formats = {**layer.formats, name: best}
    if scale is not None:
        layer.fix_scale(name, scale)


def candidates(number_format: Format, largest: float) -> list[tuple[Format, float | None]]:
    """Return the format with limits from `largest` downwards, as fraction bits or a scale, if it has these."""
    found: dict[tuple[Format, float | None], None] = {}
    for i in range(_NUM_LIMITS):
        limit = largest * 2 ** (-i / 8)
        scale, fitted = number_format.scale_for(limit), number_format.fitted(limit)
        if scale is not None or fitted is not number_format:
            found[fitted, scale] = None
    return list(found)


def with_sign(number_format: Format, values: Iterable[Tensor]) -> Format:
    """Return an integer format without a sign if no value is negative; else the format."""
    if not isinstance(number_format, Integer) or any(bool((x < 0).any()) for x in values):
        return number_format
    return replace(number_format, is_signed=False)
