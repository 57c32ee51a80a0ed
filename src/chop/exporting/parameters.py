"""The parameters of a graph with the number format that all their uses have."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from operator import attrgetter

import torch
from torch import Tensor, fx

from chop.formats import Format
from chop.ir import MaseGraph, NodeMeta
from chop.ir.graph.meta import get_node_actual_target
from chop.nn.parametrized import check_not_parametrized
from chop.nn.quantized import QuantizedCall, QuantizedLayer


@dataclass(frozen=True, eq=False)
class QuantizedParameter:
    """A parameter that is rounded to one format wherever it is used."""

    node: str
    operand: str
    tensor: Tensor
    format: Format
    scale: Tensor | None


def quantized_parameters(graph: MaseGraph) -> dict[int, QuantizedParameter]:
    """Return the parameters, by the id of their tensors, that all nodes round in the same way.

    A tied weight that one layer rounds and another one uses in float is not among them.
    """
    uses: defaultdict[int, list[QuantizedParameter | None]] = defaultdict(list)
    for meta in graph.metas():
        for tensor, use in [*_uses_in_layer(meta), *_uses_of_attribute(meta)]:
            uses[id(tensor)].append(use)
    return {
        key: first
        for key, (first, *others) in uses.items()
        if first is not None and all(_is_same(use, first) for use in others)
    }


def _is_same(use: QuantizedParameter | None, first: QuantizedParameter) -> bool:
    if use is None or use.format != first.format:
        return False
    one, other = use.scale, first.scale
    return one is other or (one is not None and other is not None and torch.equal(one, other))


def _uses_in_layer(meta: NodeMeta) -> list[tuple[Tensor, QuantizedParameter | None]]:
    layer = meta.module
    if layer is None:
        return []
    check_not_parametrized(layer)
    uses: list[tuple[Tensor, QuantizedParameter | None]] = []
    rounded: set[int] = set()
    if isinstance(layer, QuantizedLayer):
        for name in layer.parameter_names:
            tensor = attrgetter(name)(layer)
            number_format = layer.formats.get(name)
            if tensor is not None and number_format is not None and number_format.rounds:
                use = QuantizedParameter(meta.node.name, name, tensor, number_format, layer.scale_of(name))
                uses.append((tensor, use))
                rounded.add(id(tensor))
    return [*uses, *((tensor, None) for tensor in layer.parameters() if id(tensor) not in rounded)]


def _uses_of_attribute(meta: NodeMeta) -> list[tuple[Tensor, QuantizedParameter | None]]:
    if meta.node.op != "get_attr":
        return []
    tensor = get_node_actual_target(meta.node)
    if not isinstance(tensor, Tensor):
        return []
    return [(tensor, use) for user in meta.node.users for use in _uses_in_call(user, meta.node, tensor)]


def _uses_in_call(user: fx.Node, attribute: fx.Node, tensor: Tensor) -> list[QuantizedParameter | None]:
    call = user.target
    if not isinstance(call, QuantizedCall):
        return [None]
    return [
        QuantizedParameter(user.name, name, tensor, call.formats[name], call.scale_of(name))
        if name in call.formats
        else None
        for name, _, value in call.op.bound(user.args, user.kwargs)
        if value is attribute
    ] or [None]
