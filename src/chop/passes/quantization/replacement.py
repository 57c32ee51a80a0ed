"""Quantised layers and calls that replace nodes. Nothing in this file changes a graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import fx, nn

from chop.formats import FORMATS, Format
from chop.ir import NodeMeta
from chop.ir.graph.in_place import overwrites_shared_memory
from chop.ir.graph.shared_layers import group_by_layer
from chop.nn.quantized import QuantConfig, QuantizedCall, QuantizedLayer, quantize_layer

Precisions = dict[str, list[int | float]]
"""The precision of each operand whose config leaves it to the data, as `format.precision`."""


def make_replacements(
    configs: Mapping[fx.Node, QuantConfig], metas: Sequence[NodeMeta]
) -> tuple[dict[fx.Node, QuantizedLayer | QuantizedCall], dict[fx.Node, Precisions]]:
    """Return what replaces each node that has a config, and the precisions that were chosen from data for it.

    Nodes that call the same layer share one replacement.
    """
    replacements: dict[fx.Node, QuantizedLayer | QuantizedCall] = {}
    precisions: dict[fx.Node, Precisions] = {}
    for group in group_by_layer((meta, meta.module) for meta in metas if meta.node in configs):
        new: QuantizedLayer | QuantizedCall | None = None
        for meta in group:
            config = configs[meta.node]
            formats, precisions[meta.node] = formats_of(meta, config)
            if new is None:
                new = make_replacement(meta, formats, config.name)
            replacements[meta.node] = new
    return replacements, precisions


def formats_of(meta: NodeMeta, config: QuantConfig) -> tuple[dict[str, Format], Precisions]:
    """Return the formats of a node's operands and result, and which precisions were chosen from data.

    The result has a format only if the config asks for one and the result holds floating-point numbers.
    """
    assert meta.op is not None, "only nodes of the op table are quantised"
    formats = config.for_op(meta.op, meta.operands)
    result = meta.results.get("data_out_0")
    if result is None or not result.dtype.is_floating_point:
        formats.pop("data_out_0", None)
    return formats, _fit(meta, formats)


def make_replacement(meta: NodeMeta, formats: Mapping[str, Format], label: str) -> QuantizedLayer | QuantizedCall:
    """Return a node's layer or function with its operands in `formats`; `label` is the format that names it."""
    node, layer = meta.node, meta.module
    assert meta.op is not None, "only nodes of the op table are quantised"
    if layer is not None:
        values = {name: meta.value(name) for name in formats}
        new = quantize_layer(layer, formats, FORMATS[label].__name__, values)
        for name, number_format in formats.items():
            if number_format.has_learned_scale and values[name] is None:
                new.fix_scale(name, _first_scale(meta, name, number_format))
        if getattr(layer, "inplace", False):
            callers = [other for other in node.graph.nodes if other.meta["mase"].module is layer]
            new.writes_back = any(overwrites_shared_memory(caller) for caller in callers)
        return new
    learned = {}
    for name, number_format in formats.items():
        if number_format.has_learned_scale:
            value = meta.value(name)
            scale = _first_scale(meta, name, number_format) if value is None else number_format.initial_scale(value)
            learned[name] = nn.Parameter(torch.as_tensor(scale))
    target = node.target.target if isinstance(node.target, QuantizedCall) else node.target
    assert callable(target) or isinstance(target, str), "a node of the op table calls a function or a method"
    writes_back = overwrites_shared_memory(node)
    return QuantizedCall(target, meta.op.name, formats, label, writes_back, learned=learned)


def with_formats_of(meta: NodeMeta, quantized: QuantizedLayer | QuantizedCall) -> QuantizedLayer | QuantizedCall:
    """Return a node's layer or function in the formats, and with the scales, of a quantised one."""
    if meta.module is None or isinstance(quantized, QuantizedCall):
        return quantized  # a call has no weights
    new = quantize_layer(meta.module, quantized.formats, quantized.format_label)
    new.take_scales(quantized)
    new.writes_back = quantized.writes_back
    return new


def _first_scale(meta: NodeMeta, name: str, number_format: Format) -> float:
    """Return the scale at which training starts, from the range of an operand whose values were not kept."""
    largest = meta.largest(name)
    if largest is None:
        raise ValueError(_no_values(meta, name, "the first scale"))
    scale = number_format.scale_for(largest)
    if scale is None:
        raise ValueError(
            f"node '{meta.node.name}': the first scales of '{name}' need its values, but only its range is kept; "
            "run add_common_metadata_analysis_pass with add_value=True, or use granularity 'tensor'"
        )
    return scale


def _no_values(meta: NodeMeta, name: str, what: str) -> str:
    return (
        f"node '{meta.node.name}': {what} of '{name}' is chosen from data, but the graph keeps no values; run "
        "add_common_metadata_analysis_pass with add_value=True or add_range=True, or give all parameters"
    )


def _fit(meta: NodeMeta, formats: dict[str, Format]) -> Precisions:
    """Fit formats that leave a parameter to the data to the values of the annotating run, in place."""
    chosen: Precisions = {}
    for name, number_format in formats.items():
        if number_format.needs_fit:
            largest = meta.largest(name)
            if largest is None:
                raise ValueError(_no_values(meta, name, "the format"))
            formats[name] = number_format.fitted(largest)
            chosen[name] = formats[name].precision
    return chosen
