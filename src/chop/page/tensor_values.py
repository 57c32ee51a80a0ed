"""The values of all tensors of a graph: their distribution, and the effect of rounding them to their formats."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from copy import copy
from dataclasses import dataclass, field
from typing import Any, cast

import torch
from torch import Tensor, fx

from chop.display.progress import Stage
from chop.formats import Format
from chop.formats.float import Float
from chop.ir import MaseGraph, NodeMeta
from chop.ir.graph.interpreter import bind_inputs, named_inputs, tensors_in, undisturbed
from chop.ir.graph.meta import get_node_actual_target
from chop.nn.quantized import forget_rounded
from chop.page.representable_values import RepresentableValues, representable_values
from chop.statistics.batches import limited_batches, num_rows
from chop.statistics.distribution_statistics import Summary
from chop.statistics.format_fit import FormatFitMeter
from chop.statistics.joint_results import compute_all
from chop.statistics.profile import Profile, TensorKey, update
from chop.statistics.profiler import Profiler, weights_of

TensorName = tuple[str, str]
"""A node, and the name of one of its operands or results."""

SUMMARY = "summary"
STATISTICS = {SUMMARY: {"shares": (0.5,)}}
MAX_VALUES_ROUNDED = 1 << 18
"""Activations per tensor and batch whose rounding is measured: those of the first rows."""
VALUES_PER_CHUNK = 1 << 16
"""Values that are rounded together, few enough for the cache."""


@dataclass
class TensorValues:
    """What was measured on each tensor."""

    summaries: list[dict[str, Any]]
    """The results of the statistic `summary`; a tensor that one node makes and others read has one of them."""
    summary_index: dict[TensorName, int]
    """The position of each tensor's summary in `summaries`."""
    roundings: dict[TensorName, FormatFitMeter] = field(default_factory=dict)
    representable: dict[TensorName, RepresentableValues] = field(default_factory=dict)
    num_samples: int = 0
    """Rows that the activations were measured on."""


def measure_tensors(
    graph: MaseGraph, batches: Iterable[Mapping[str, Any]] | None, num_samples: int
) -> TensorValues:
    """Measure the weights of a graph and, if there are batches, its activations on the first `num_samples` rows."""
    with Stage("measuring weights"):
        observer = _TensorObserver(graph)
    with undisturbed(graph.model):
        for batch in limited_batches(batches or (), num_samples):
            observer.profile_batch(bind_inputs(graph, batch), num_rows(batch))
    profile = observer.profile
    if batches is not None and profile.num_samples == 0:
        raise ValueError("input_generator yields no batches")
    with Stage("summarising tensors"):
        summaries, summary_index = _distinct_summaries(profile)
    return TensorValues(
        summaries, summary_index, observer.roundings, observer.representable, num_samples=profile.num_samples
    )


def _distinct_summaries(profile: Profile) -> tuple[list[dict[str, Any]], dict[TensorName, int]]:
    """Return each summary once, and the position of each tensor's summary."""
    positions: dict[int, int] = {}
    statistics: list[Summary] = []
    for collection in profile.collections.values():
        if id(collection) not in positions:
            positions[id(collection)] = len(statistics)
            statistics.append(cast(Summary, collection[SUMMARY]))
    index = {(key.node, key.entry): positions[id(each)] for key, each in profile.collections.items()}
    return compute_all(statistics), index


class _TensorObserver(Profiler):
    """A profiler of all operands and results of a graph that also measures how their formats round them."""

    def __init__(self, graph: MaseGraph) -> None:
        metas = graph.annotated_metas()
        self.metas = {meta.node: meta for meta in metas if meta.node.op not in ("output", "get_attr")}
        self.roundings: dict[TensorName, FormatFitMeter] = {}
        self.representable: dict[TensorName, RepresentableValues] = {}
        weights = {node: weights_of(meta) for node, meta in self.metas.items()}
        super().__init__(graph.model, self.metas, weights, STATISTICS, outputs=True)
        for node, parameters in weights.items():
            for name, value in parameters.items():
                self._measure_weight(self.metas[node], name, value)
        for meta in metas:
            if meta.node.op == "get_attr" and isinstance(value := get_node_actual_target(meta.node), Tensor):
                self._measure_weight(meta, "data_out_0", value)

    def before(self, node: fx.Node, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        super().before(node, args, kwargs)
        if node in self.metas:
            for name, tensor in named_inputs(self.metas[node], args, kwargs).items():
                if name not in self._weights[node]:
                    self._measure_rounding(self.metas[node], name, _first_rows(tensor))

    def after(self, node: fx.Node, result: Any) -> None:
        super().after(node, result)
        for i, tensor in enumerate(tensors_in(result)) if node in self.metas else ():
            if (node.name, f"data_out_{i}") not in self.representable:
                self._find_representable(self.metas[node], f"data_out_{i}", _first_rows(tensor))
        if node in self.metas:
            forget_rounded(self.metas[node].module)  # used again only in the next batch, and there are few

    def _measure_weight(self, meta: NodeMeta, name: str, value: Tensor) -> None:
        key = TensorKey(meta.node.name, "weights", name)
        self.profile.collections[key] = {SUMMARY: copy(self._empty[SUMMARY])}
        update(self.profile.collections[key], value, key)
        self._measure_rounding(meta, name, value)

    def _measure_rounding(self, meta: NodeMeta, name: str, values: Tensor) -> None:
        number_format = _rounding_format(meta, name)
        if number_format is None or not values.is_floating_point():
            return
        key = (meta.node.name, name)
        if key not in self.roundings:
            self.roundings[key] = FormatFitMeter(number_format, meta.scale_of(name), keeps_sample=False)
            self._find_representable(meta, name, values)
        scale = self.roundings[key].scale
        whole = scale is not None and scale.numel() > 1  # one scale per row, or per channel
        for chunk in (values,) if whole else _chunks(number_format, values):
            self.roundings[key].add(chunk)

    def _find_representable(self, meta: NodeMeta, name: str, values: Tensor) -> None:
        number_format = _rounding_format(meta, name)
        if number_format is not None and values.is_floating_point() and values.numel() > 0:
            found = representable_values(number_format, _chunks(number_format, values), meta.scale_of(name))
            self.representable[meta.node.name, name] = found


def _rounding_format(meta: NodeMeta, name: str) -> Format | None:
    """Return the format that a tensor of a node is rounded to; None if it is not quantised."""
    tensor = (meta.args | meta.results).get(name)
    return None if tensor is None or isinstance(tensor.format, Float) else tensor.format


def _chunks(number_format: Format, values: Tensor) -> tuple[Tensor, ...]:
    """Split a tensor into chunks of a few rows, which are faster to round, unless rows are rounded together."""
    is_small = values.ndim == 0 or values.numel() <= VALUES_PER_CHUNK
    if is_small or not number_format.rounds_rows_independently(values):
        return (values,)
    return torch.split(values, max(1, VALUES_PER_CHUNK * len(values) // values.numel()))


def _first_rows(tensor: Tensor) -> Tensor:
    if tensor.ndim == 0 or tensor.numel() <= MAX_VALUES_ROUNDED:
        return tensor
    return tensor[: max(1, MAX_VALUES_ROUNDED * len(tensor) // tensor.numel())]
