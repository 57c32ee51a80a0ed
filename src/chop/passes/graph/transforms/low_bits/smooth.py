"""Factors per channel that move the difficulty of rounding from activations to weights, or back."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, fx

from chop.ir import MaseGraph, NodeMeta
from chop.nn.quantized import QuantizedLayer
from chop.passes.base import PassResult, register_pass
from chop.passes.graph.transforms.low_bits.clip import candidates, with_sign
from chop.passes.graph.transforms.low_bits.equalize import scale_inputs, scale_outputs
from chop.passes.graph.transforms.low_bits.layers import CalibrationArgs, calibrating, gain
from chop.passes.graph.transforms.low_bits.neighbours import activation_after, layer_before, linear_layers
from chop.passes.graph.transforms.low_bits.walk import Walk, valid_rows
from chop.statistics.batches import limited_batches
from chop.statistics.deviation import Deviation

_EXPONENTS = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
_MAX_ROWS = 2048
"""Rows of a layer's input with which its exponent is chosen."""


@dataclass(frozen=True)
class SmoothArgs(CalibrationArgs):
    """Arguments of `smooth`."""

    exponent: float | None = None
    """How much moves to the weights, from 0 to 1; None: what gives each layer the least error."""
    statistic: Literal["max", "mean"] = "max"
    """The magnitude of a channel: its largest value (SmoothQuant), or its mean (AWQ, for weight-only formats)."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.exponent is not None and not 0 <= self.exponent <= 1:
            raise ValueError(f"'exponent' must be from 0 to 1, got {self.exponent}")


@register_pass("smooth", kind="transform")
def smooth_transform_pass(graph: MaseGraph, args: SmoothArgs) -> PassResult:
    """Divide the channels of activations by factors, and multiply the weights that read them.

    Channels with large values then need no larger scale (SmoothQuant, Xiao et al., 2023), or channels that matter
    more are rounded more finely (AWQ, Lin et al., 2024). The layer or normalisation before takes over the division;
    linear layers without such a layer stay as they are. Run it on a quantised graph. `info["layers"]` has the
    signal-to-noise ratio of the outputs in dB, and the exponent, by the layer that takes over the division.
    """
    sources = {
        source: (producer, metas)
        for source, metas in linear_layers(graph).items()
        if (producer := _producer(source, metas)) is not None
    }
    rows = _collect(graph, sources, args)
    report: dict[str, dict[str, Any]] = {}
    exponents = _EXPONENTS if args.exponent is None else (args.exponent,)
    for source, (producer, metas) in sources.items():
        layers = [meta.quantized for meta in metas if isinstance(meta.quantized, QuantizedLayer)]
        if not layers:
            continue
        factors = {each: _factor(layers, rows[source], each, args) for each in exponents}
        with calibrating(graph, args.seed):
            ratios = {each: _decibels(metas, rows[source], factor) for each, factor in factors.items()}
            before = _decibels(metas, rows[source], torch.ones_like(factors[exponents[0]]))
        exponent = max(ratios, key=lambda each: ratios[each])
        if ratios[exponent] > before or args.exponent is not None:
            scale_outputs(producer, 1 / factors[exponent])
            for meta in metas:
                scale_inputs(meta, factors[exponent])
            report[producer.node.name] = {**gain(before, ratios[exponent]), "exponent": exponent}
    return graph, {"layers": report}


def _producer(source: fx.Node, metas: Sequence[NodeMeta]) -> NodeMeta | None:
    """Return the layer that can divide the channels of a node, which only these layers read, or None."""
    if len(source.users) != len(metas):
        return None
    producer = layer_before(metas[0].node, scaling=True)
    if producer is None or len(producer.node.users) not in (1, len(metas)) or _channels_share_scale(producer):
        return None
    return producer


def _channels_share_scale(meta: NodeMeta) -> bool:
    """Whether the weights of several output channels are rounded with one scale, or fraction bits."""
    layer = meta.quantized
    if not isinstance(layer, QuantizedLayer) or "weight" not in layer.formats:
        return False
    number_format, weight = layer.formats["weight"], meta.value("weight")
    assert weight is not None, "a layer has the value of its weight"
    groups = number_format.scale_groups(weight)
    if groups is None or layer.scale_of("weight") is not None:
        return number_format.rounds
    return bool((groups[1:] == groups[:-1]).any())


def _collect(graph: MaseGraph, sources: Mapping[fx.Node, Any], args: SmoothArgs) -> dict[fx.Node, Tensor]:
    """Return rows of the results of nodes in the float model."""
    batches = list(limited_batches(args.input_generator, args.num_samples))
    if not batches:
        raise ValueError("smooth: input_generator yields no batches")
    found: dict[fx.Node, Tensor] = {}
    with calibrating(graph, args.seed):
        walk = Walk(graph, batches, in_float=True)
        for node in graph.fx_graph.nodes:
            results = walk.run(node)
            if node in sources:
                kept = [valid_rows(y, mask) for y, mask in zip(results, walk.masks, strict=True)]
                found[node] = torch.cat(kept)[:_MAX_ROWS].clone()
            if len(found) == len(sources):
                break
    return found


def _factor(layers: Sequence[Any], rows: Tensor, exponent: float, args: SmoothArgs) -> Tensor:
    """Return what the weights of each channel are multiplied by; the geometric mean of all channels is 1.

    Channels that are always 0 keep their weights: nothing is known of their magnitude.
    """
    magnitude = rows.abs().amax(0) if args.statistic == "max" else rows.abs().mean(0)
    weights = torch.stack([layer.weight.detach().abs().amax(0) for layer in layers]).amax(0)
    known = (magnitude > 0) & (weights > 0)
    factor = magnitude.pow(exponent) / weights.pow(1 - exponent if args.statistic == "max" else 0.0)
    mean = factor[known].log().mean().exp()
    return torch.where(known, factor / mean, 1.0).clamp(1e-4, 1e4)


def _decibels(metas: Sequence[NodeMeta], rows: Tensor, factor: Tensor) -> float:
    """Return the signal-to-noise ratio of the outputs of layers if the channels they read are divided.

    Fraction bits and scales per tensor are the best ones for the new values.
    """
    deviation = Deviation()
    with torch.no_grad():
        for meta in metas:
            deviation.add(*_outputs(meta, rows, factor))
    return deviation.sqnr_db


def _outputs(meta: NodeMeta, rows: Tensor, factor: Tensor) -> tuple[Tensor, Tensor]:
    """Return the output of a layer after its activation: in float, and rounded if its inputs are divided."""
    layer: Any = meta.quantized
    is_flat = len(meta.results["data_out_0"].shape) == 2  # `rows` are flat, and a norm may normalise other axes
    after, weight = activation_after(meta.node, elementwise=not is_flat), layer.weight.detach() * factor

    def compute(x: Tensor, weight: Tensor) -> Tensor:
        return after(F.linear(x, weight, layer.bias))

    expected = compute(rows, layer.weight)
    x = _rounded(layer, "data_in_0", rows / factor, expected, lambda x: compute(x, weight))
    rounded = _rounded(layer, "weight", weight, expected, lambda weight: compute(x, weight))
    return expected, compute(x, rounded)


def _rounded(
    layer: QuantizedLayer, name: str, value: Tensor, expected: Tensor, compute: Callable[[Tensor], Tensor]
) -> Tensor:
    """Return a rounded operand with fraction bits, or a scale, for the least error of the output."""
    number_format = layer.formats.get(name)
    if number_format is None:
        return value
    found = candidates(with_sign(number_format, [value]), float(value.abs().max()))
    if not found:
        return layer.rounded(name, value)
    results = [each(value, None if scale is None else value.new_tensor(scale)) for each, scale in found]
    return min(results, key=lambda each: float((compute(each) - expected).square().sum()))
