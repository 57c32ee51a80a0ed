"""The values of all tensors of a graph: their distribution, and what their formats make of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, fx

from chop.formats import Format
from chop.formats.float import Float
from chop.ir import MaseGraph, NodeMeta
from chop.ir.graph.interpreter import bind_inputs, named_inputs, tensors_in, undisturbed
from chop.ir.graph.node_target import get_node_actual_target
from chop.nn.quantized import QuantizedLayer
from chop.page.representable import Representable, representable
from chop.statistics.batches import limited, num_rows
from chop.statistics.profile import Place, Profile, make_statistics, update
from chop.statistics.profiler import Profiler, weights_of
from chop.statistics.range_meter import Meter

Key = tuple[str, str]
"""A node, and the name of one of its operands or results."""

SUMMARY = "summary"
STATISTICS = {SUMMARY: {"shares": (0.5,)}}
MOST_ROUNDED = 1 << 18
"""Of each batch, rounding is looked at in the first rows with up to so many values."""
FEW_VALUES = 1 << 16


@dataclass
class Measured:
    """What was seen of each tensor."""

    summaries: list[dict[str, Any]]
    """The results of the statistic `summary`; of a tensor that one node makes and others read, once."""
    places: dict[Key, int]
    """Where each tensor's is among them."""
    roundings: dict[Key, Meter] = field(default_factory=dict)
    representable: dict[Key, Representable] = field(default_factory=dict)
    num_samples: int = 0


def measure(graph: MaseGraph, batches: Iterable[Mapping[str, Any]] | None, num_samples: int) -> Measured:
    """The weights of a graph and, if there are batches, its activations on `num_samples` rows of them."""
    observer = _Observer(graph)
    with undisturbed(graph.model):
        for batch, _ in limited(((each, None) for each in batches or ()), num_samples):
            observer.profile_batch(bind_inputs(graph, batch), num_rows(batch))
    if batches is not None and observer.profile.num_samples == 0:
        raise ValueError("input_generator gives no batches")
    summaries, places = _distinct(observer.profile)
    return Measured(
        summaries, places, observer.roundings, observer.representable, num_samples=observer.profile.num_samples
    )


def _distinct(profile: Profile) -> tuple[list[dict[str, Any]], dict[Key, int]]:
    """Each summary once, and which one is of which tensor."""
    found: dict[int, int] = {}
    summaries: list[dict[str, Any]] = []
    for collection in profile.collections.values():
        if id(collection) not in found:
            found[id(collection)] = len(summaries)
            summaries.append(collection[SUMMARY].compute())
    places = {(p.node, p.entry): found[id(collection)] for p, collection in profile.collections.items()}
    return summaries, places


class _Observer(Profiler):
    """Profiles all that goes into the nodes of a graph and comes out, and holds it against its format."""

    def __init__(self, graph: MaseGraph) -> None:
        metas = graph.annotated_metas()
        self.metas = {meta.node: meta for meta in metas if meta.node.op not in ("output", "get_attr")}
        self.roundings: dict[Key, Meter] = {}
        self.representable: dict[Key, Representable] = {}
        weights = {node: weights_of(meta) for node, meta in self.metas.items()}
        super().__init__(graph.model, self.metas, weights, STATISTICS, outputs=True)
        for node, held in weights.items():
            for name, value in held.items():
                self._take_weight(self.metas[node], name, value)
        for meta in metas:
            if meta.node.op == "get_attr" and isinstance(value := get_node_actual_target(meta.node), Tensor):
                self._take_weight(meta, "data_out_0", value)

    def before(self, node: fx.Node, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        super().before(node, args, kwargs)
        if node in self.metas:
            for name, tensor in named_inputs(self.metas[node], args, kwargs).items():
                if name not in self._weights[node]:
                    self._hold_against_format(self.metas[node], name, _first_rows(tensor))

    def after(self, node: fx.Node, result: Any) -> None:
        super().after(node, result)
        for i, tensor in enumerate(tensors_in(result)) if node in self.metas else ():
            if (node.name, f"data_out_{i}") not in self.representable:
                self._note_representable(self.metas[node], f"data_out_{i}", _first_rows(tensor))

    def _take_weight(self, meta: NodeMeta, name: str, value: Tensor) -> None:
        place = Place(meta.node.name, "weights", name)
        self.profile.collections[place] = make_statistics(STATISTICS, "weights")
        update(self.profile.collections[place], value, place)
        self._hold_against_format(meta, name, value)

    def _hold_against_format(self, meta: NodeMeta, name: str, values: Tensor) -> None:
        number_format = _rounding_format(meta, name)
        if number_format is None or not values.is_floating_point():
            return
        key = (meta.node.name, name)
        if key not in self.roundings:
            self.roundings[key] = Meter(number_format, _scale(meta, name), keeps_sample=False)
            self._note_representable(meta, name, values)
        for part in _parts(number_format, values):
            self.roundings[key].add(part)

    def _note_representable(self, meta: NodeMeta, name: str, values: Tensor) -> None:
        number_format = _rounding_format(meta, name)
        if number_format is not None and values.is_floating_point() and values.numel() > 0:
            found = representable(number_format, values, _scale(meta, name))
            self.representable[meta.node.name, name] = found


def _rounding_format(meta: NodeMeta, name: str) -> Format | None:
    """The format that a tensor of a node is rounded to, if it is."""
    tensor = (meta.args | meta.results).get(name)
    return None if tensor is None or isinstance(tensor.format, Float) else tensor.format


def _scale(meta: NodeMeta, name: str) -> Tensor | None:
    """The learned or calibrated scale of an operand."""
    if not isinstance(meta.quantized, QuantizedLayer):
        return None
    scale: Tensor | None = getattr(meta.quantized, f"{name.removesuffix('_0')}_scale", None)
    return None if scale is None else scale.detach()


def _parts(number_format: Format, values: Tensor) -> tuple[Tensor, ...]:
    """The same rows a few at a time, where that changes nothing: what fits in the cache is looked at faster."""
    if values.ndim == 0 or values.numel() <= FEW_VALUES or not number_format.rounds_rows_apart(values):
        return (values,)
    return torch.split(values, max(1, FEW_VALUES * len(values) // values.numel()))


def _first_rows(tensor: Tensor) -> Tensor:
    if tensor.ndim == 0 or tensor.numel() <= MOST_ROUNDED:
        return tensor
    return tensor[: max(1, MOST_ROUNDED * len(tensor) // tensor.numel())]
