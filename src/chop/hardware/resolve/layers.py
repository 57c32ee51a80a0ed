"""Layers that replace those of a graph, with new parameters or formats; the original model keeps its own."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from itertools import chain
from typing import Any

from torch import Tensor, nn

from chop.formats import FORMATS, Format
from chop.ir import NodeMeta
from chop.ir.graph.learned_scales import set_call
from chop.ir.graph.meta import TensorMeta
from chop.nn.parametrized import check_not_parametrized
from chop.nn.quantized import QuantizedCall, QuantizedLayer, plain_layer, quantize_layer


def set_formats(meta: NodeMeta, formats: Mapping[str, Format]) -> None:
    """Let a node round its operands to `formats`, which replace all formats that it has."""
    node, layer = meta.node, meta.module
    label = next(iter(formats.values())).name
    if layer is not None:
        new = quantize_layer(layer, formats, FORMATS[label].__name__)
        if isinstance(layer, QuantizedLayer):
            new.take_scales(layer)
        meta.model.set_submodule(str(node.target), new)
    else:
        assert meta.op is not None, "only ops are quantised"
        old = node.target if isinstance(node.target, QuantizedCall) else None
        target: Any = node.target if old is None else old.target
        same = set() if old is None else {name for name in formats if formats[name] == old.formats.get(name)}
        scales = {} if old is None else {name: each for name, each in old.scales.items() if name in same}
        learned = {} if old is None else {name: each for name, each in old.learned.items() if name in same}
        writes_back = old is not None and old.writes_back
        set_call(node, QuantizedCall(target, meta.op.name, formats, label, writes_back, scales, learned))
    meta.note_formats()


def with_parameters(layer: nn.Module, values: Mapping[str, Tensor]) -> nn.Module:
    """Return a copy of a layer with other parameters and buffers, and with the formats and scales that it has."""
    plain = plain_layer(layer) if isinstance(layer, QuantizedLayer) else layer
    check_not_parametrized(plain)
    new = copy.copy(plain)
    vars(new).update({key: value.copy() for key, value in vars(plain).items() if isinstance(value, dict | set)})
    for name, value in values.items():
        old = getattr(plain, name)
        if name in new._buffers:
            new._buffers[name] = value.to(new._buffers[name].dtype)  # type: ignore[union-attr]
        else:
            like = old if old is not None else next(chain(plain.parameters(), plain.buffers()))
            new._parameters[name] = nn.Parameter(value.detach().to(like.dtype), requires_grad=like.requires_grad)
    if not isinstance(layer, QuantizedLayer):
        return new
    quantized = quantize_layer(new, layer.formats, layer.format_label)
    quantized.writes_back = layer.writes_back
    quantized.take_scales(layer)
    return quantized


def replace_layer(meta: NodeMeta, layer: nn.Module) -> None:
    """Let a node call another layer of the same op, which may have a bias that the old one did not have."""
    meta.model.set_submodule(str(meta.node.target), layer)
    for name in ("weight", "bias"):
        value = getattr(layer, name, None)
        if value is not None and name not in meta.args:
            meta.args[name] = TensorMeta.of(value, is_parameter=True)
    meta.note_formats()
