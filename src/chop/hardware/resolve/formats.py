"""The number formats that a graph lacks, taken from the neighbours of each node."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import cast

import torch
from torch import fx, nn

from chop.formats import Format
from chop.formats.integer import Integer
from chop.formats.mixed_integer import MixedInteger
from chop.hardware.program.lowering import format_hint
from chop.hardware.program.number_formats import has_signs
from chop.hardware.program.windows import Windows
from chop.hardware.resolve.batch_norm import NORMS, WEIGHTED, is_affine, make_affine
from chop.hardware.resolve.layers import replace_layer, set_formats, with_parameters
from chop.ir import MaseGraph, NodeMeta
from chop.ir.graph.meta import TensorMeta
from chop.nn.quantized import QuantizedLayer, quantize_layer

AVERAGES = ("avg_pool2d", "adaptive_avg_pool2d")
SCALE_WIDTH = 8
"""The bits of the scale of binary or ternary weights, if those of the data are not one number."""


@dataclass
class Resolved:
    """What was done to a graph."""

    completed: dict[str, dict[str, Format]] = field(default_factory=dict)
    """The formats that nodes were given, by node and operand."""
    exact: list[str] = field(default_factory=list)
    """Nodes without a format whose results are exact without one, such as ReLU."""
    reciprocals: list[str] = field(default_factory=list)
    """Average pools whose division became a multiplication by a quantised reciprocal."""
    scales: dict[str, float] = field(default_factory=dict)
    """The largest scale of binary and ternary weights after it was rounded to fixed point, by node."""


def resolve_formats(graph: MaseGraph, strict: bool = False) -> Resolved:
    """Give every node the formats that hardware needs. With `strict`, completing one is an error."""
    resolved = Resolved()
    for meta in graph.annotated_metas():
        if meta.mase_op in NORMS and not is_affine(meta.module):
            make_affine(meta)
        own = {} if meta.quantized is None else dict(meta.quantized.formats)
        missing = [name for name in meta.operands if name not in own]
        if not missing:
            continue
        formats = _from_neighbours(meta, missing)
        needs = meta.mase_op in (*WEIGHTED, *NORMS) or (formats is None and not _is_exact(meta))
        if strict and (needs or formats is not None):
            raise ValueError(f"node '{meta.node.name}' ({meta.mase_op}) is in float; {format_hint(meta)}")
        if formats is None and needs:
            raise ValueError(
                f"node '{meta.node.name}' ({meta.mase_op}) is in float, and so are its neighbours; "
                + format_hint(meta)
            )
        if formats is None:
            resolved.exact.append(meta.node.name)
            continue
        set_formats(meta, own | formats)
        resolved.completed[meta.node.name] = formats
    for meta in graph.annotated_metas():
        if meta.mase_op in AVERAGES and _use_reciprocal(meta):
            resolved.reciprocals.append(meta.node.name)
        if meta.mase_op in (*WEIGHTED, *NORMS) and _has_scaled_signs(meta):
            resolved.scales[meta.node.name] = _round_scale(meta)
    return resolved


def _is_exact(meta: NodeMeta) -> bool:
    return meta.mase_op in ("relu", "max_pool2d", "add", "cat", *AVERAGES)


def _from_neighbours(meta: NodeMeta, missing: Iterable[str]) -> dict[str, Format] | None:
    """Return formats for operands of a node: as wide as those of the nearest node, and fitted to known values."""
    after = _nearest(meta.node, lambda node: node.users)
    before = _nearest(meta.node, lambda node: node.all_input_nodes)
    chosen = after or before
    if chosen is None or (_is_exact(meta) and (after is None or isinstance(after["data_in_0"], MixedInteger))):
        return None
    formats: dict[str, Format] = {}
    for name in missing:
        role = meta.operands[name].role
        known = chosen if role == "data_in" else {**chosen, "data_in_0": chosen.get(str(role), chosen["data_in_0"])}
        like = known["data_in_0"]
        if not isinstance(like, Integer) or not like.is_fixed_point:
            like = Integer(8)
        value = meta.value(name)
        if meta.mase_op in (*WEIGHTED, *NORMS) and value is not None and value.numel():
            like = like.fitted(value.abs().max().item())
        formats[name] = like
    return formats


def _nearest(node: fx.Node, step: Callable[[fx.Node], Iterable[fx.Node]]) -> dict[str, Format] | None:
    """Return the formats of the nearest node in one direction whose input is in fixed point."""
    seen, waiting = {node}, deque(step(node))
    while waiting:
        other = waiting.popleft()
        if other in seen:
            continue
        seen.add(other)
        quantized = other.meta["mase"].quantized
        if quantized is not None and isinstance(quantized.formats.get("data_in_0"), Integer | MixedInteger):
            return dict(quantized.formats)
        waiting.extend(step(other))
    return None


def _has_scaled_signs(meta: NodeMeta) -> bool:
    weight = None if meta.quantized is None else meta.quantized.formats.get("weight")
    return has_signs(weight) and weight.scaling and weight.is_repeatable


def _round_scale(meta: NodeMeta) -> float:
    """Round the scale of binary or ternary weights to fixed point, as wide as the data, and return it."""
    layer = meta.module
    assert isinstance(layer, QuantizedLayer), "only layers have such weights"
    weight, data = layer.quantized("weight"), layer.formats.get("data_in_0")
    assert weight is not None, "a layer has its weight"
    largest = weight.detach().abs().max()
    fixed = Integer(data.width if isinstance(data, Integer) else SCALE_WIDTH).fitted(largest.item())
    replace_layer(meta, with_parameters(layer, {"weight": weight.detach()}))
    set_formats(meta, {**layer.formats, "weight": fixed})
    return float(fixed.quantize(largest))


def _use_reciprocal(meta: NodeMeta) -> bool:
    """Replace a mean over a number of elements that is not a power of two by a convolution; whether it was one."""
    shape = tuple(meta.args["data_in_0"].shape[1:])
    windows = Windows.of_pool(meta, shape)
    size = windows.divisor(meta.node.name)
    if size & (size - 1) == 0:
        return False
    channels = shape[0]
    kernel, stride, padding = (
        cast(tuple[int, int], each) for each in (windows.shape.kernel, windows.shape.stride, windows.shape.padding)
    )
    layer = nn.Conv2d(channels, channels, kernel, stride, padding, groups=channels, bias=False)
    layer.weight = nn.Parameter(torch.full_like(layer.weight, 1 / size), requires_grad=False)
    quantized = meta.quantized
    data = None if quantized is None else quantized.formats.get("data_in_0")
    if not isinstance(data, Integer):
        raise ValueError(f"node '{meta.node.name}' ({meta.mase_op}) is in float; {format_hint(meta)}")
    weight = Integer(data.width, rounding=data.rounding).fitted(1 / size)
    formats: dict[str, Format] = {"data_in_0": data, "weight": weight}
    meta.model.set_submodule(str(meta.node.target), quantize_layer(layer, formats, "Integer"))
    meta.op = meta.find_op()
    meta.settings = {}
    meta.args["weight"] = TensorMeta.of(layer.weight, is_parameter=True)
    meta.note_formats()
    return True
