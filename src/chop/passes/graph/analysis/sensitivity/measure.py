"""The effect of replacing nodes on a model's output: each node alone, and all nodes but one."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, fx, nn

from chop.display.numbers import counted
from chop.display.progress import ProgressBar
from chop.ir import MaseGraph
from chop.ir.graph.device import device_of
from chop.ir.graph.incremental import IncrementalRun
from chop.ir.graph.interpreter import evaluation_mode, undisturbed
from chop.ir.graph.shared_layers import group_by_layer
from chop.nn.quantized import forget_rounded
from chop.registry import closest
from chop.statistics.batches import LabelledBatch, num_rows
from chop.statistics.deviation import Deviation
from chop.statistics.scoring import Score, add_output

LabelledReplacements = Mapping[str, Mapping[str, Callable[..., Any]]]
"""By node name: the layers or functions that may replace the node, by a label such as `"8"`."""
_Unit = tuple[fx.Node, ...]
"""Nodes that call the same layer, and so are replaced together."""


@dataclass(frozen=True)
class Effect:
    """The effect of a replacement, compared with the unchanged graph. Loss and accuracy need labels."""

    output_sqnr_db: float
    """SQNR of the model's output."""
    sqnr_db: float | None = None
    """SQNR of the node's own output, if one node is replaced."""
    loss_change: float | None = None
    accuracy_change: float | None = None


@dataclass(frozen=True)
class Sensitivity:
    """The effect of every replacement."""

    alone: dict[str, dict[str, Effect]]
    """By node and label: only this node is replaced."""
    all_but: dict[str, dict[str, Effect]]
    """By node and label: all nodes are replaced by what has this label, except this node."""
    quantized: dict[str, Effect]
    """By label: all nodes are replaced."""
    loss: float | None
    """The loss of the unchanged graph."""
    accuracy: float | None
    num_samples: int


def measure_sensitivity(
    graph: MaseGraph,
    replacements: LabelledReplacements,
    batches: Iterable[LabelledBatch],
    *,
    nodes: Collection[str] | None = None,
    both: bool = True,
) -> Sensitivity:
    """Measure the effect of each replacement alone and, if `both`, of all others without it, for `nodes` or all.

    For each replacement only the nodes that depend on it are run again, so time grows with the depth of the graph.
    Memory is bounded by one batch. The graph, its mode and the random state stay unchanged.
    """
    measurement = _Measurement(graph, replacements, nodes, both)
    layers = [new for by_label in replacements.values() for new in by_label.values() if isinstance(new, nn.Module)]
    with undisturbed(graph.model), evaluation_mode(nn.ModuleList(layers)):
        for number, (inputs, labels) in enumerate(batches, 1):
            title = f"sensitivity, batch {number}: {counted(num_rows(inputs), 'sample')}"
            with ProgressBar(title, measurement.runs_per_batch) as progress:
                measurement.add(inputs, labels, progress)
    return measurement.result()


class _Sums:
    """Deviation and score of one set of replacements, over the batches so far."""

    def __init__(self, device: torch.device) -> None:
        self.output = Deviation()
        self.own: defaultdict[str, Deviation] = defaultdict(Deviation)
        self.score = Score(device)

    def add(self, plain: Any, output: Any, labels: Tensor | None) -> None:
        self.output.add(plain, output)
        if labels is not None:
            add_output(self.score, output, labels)

    def effect(self, plain: Score, node: str | None = None) -> Effect:
        (loss, accuracy), (plain_loss, plain_accuracy) = _read(self.score), _read(plain)
        return Effect(
            self.output.sqnr_db,
            None if node is None else self.own[node].sqnr_db,
            _difference(loss, plain_loss),
            _difference(accuracy, plain_accuracy),
        )


class _Measurement:
    """All sums: of the unchanged graph, and by unit and label."""

    def __init__(
        self, graph: MaseGraph, replacements: LabelledReplacements, nodes: Collection[str] | None, both: bool
    ) -> None:
        self.graph, self.replacements, self.both = graph, replacements, both
        found = {node.name: node for node in graph.fx_graph.nodes}
        for name in replacements:
            if name not in found:
                raise ValueError(f"there is no node '{name}'; {closest(name, found)}")
        wanted = replacements.keys() if nodes is None else nodes
        for name in wanted:
            if name not in replacements:
                raise ValueError(f"there is no replacement for node '{name}'; {closest(name, replacements)}")
        self.nodes = [node for name, node in found.items() if name in replacements]
        units = group_by_layer((node, node.meta["mase"].module) for node in self.nodes)
        self.units = [unit for unit in units if any(node.name in wanted for node in unit)]
        device = device_of(graph.model)
        self.plain = Score(device)
        make_sums = partial(_Sums, device)
        self.alone: defaultdict[tuple[_Unit, str], _Sums] = defaultdict(make_sums)
        self.all_but: defaultdict[tuple[_Unit, str], _Sums] = defaultdict(make_sums)
        self.quantized: defaultdict[str, _Sums] = defaultdict(make_sums)
        self.num_samples = 0
        self.labelled: bool | None = None

    @property
    def runs_per_batch(self) -> int:
        """The number of runs of the graph, or of parts of it, per batch."""
        per_unit = sum(len(self._labels(unit)) for unit in self.units)
        return (2 if self.both else 1) * per_unit + len(self._labels(self.nodes))

    def add(self, inputs: Mapping[str, Any], labels: Tensor | None, progress: ProgressBar) -> None:
        if self.labelled not in (None, labels is not None):
            raise ValueError("either all batches or none of them must have labels")
        self.labelled = labels is not None
        self.num_samples += num_rows(inputs)
        incremental = IncrementalRun(self.graph, inputs)
        plain = incremental.run()
        if labels is not None:
            add_output(self.plain, plain, labels)
        for unit in self.units:
            for label in self._labels(unit):
                self._add_alone(incremental, plain, unit, label, labels)
                progress.step()
        for label in self._labels(self.nodes):
            self._add_together(incremental, plain, label, labels, progress)

    def _add_alone(
        self, incremental: IncrementalRun, plain: Any, unit: _Unit, label: str, labels: Tensor | None
    ) -> None:
        changed = incremental.peek(self._replacements(unit, label))
        sums = self.alone[unit, label]
        sums.add(plain, changed.output, labels)
        for node in unit:
            sums.own[node.name].add(incremental.values[node], changed[node])
        forget_rounded(*changed.replaced.values())  # needed again only in the next batch

    def _add_together(
        self, incremental: IncrementalRun, plain: Any, label: str, labels: Tensor | None, progress: ProgressBar
    ) -> None:
        together = self._replacements(self.nodes, label)
        _forget_own(self.nodes)
        self.quantized[label].add(plain, incremental.run(together), labels)
        progress.step()
        if self.both:
            # From the last unit to the first: each run changes two units, and nothing before them runs again.
            for unit in reversed(self.units):
                if label in self._labels(unit):
                    rest = {node: new for node, new in together.items() if node not in unit}
                    self.all_but[unit, label].add(plain, incremental.run(rest), labels)
                    _forget_own(unit)
                    progress.step()
        forget_rounded(*together.values())

    def _labels(self, nodes: Iterable[fx.Node]) -> list[str]:
        return list(dict.fromkeys(label for node in nodes for label in self.replacements[node.name]))

    def _replacements(self, nodes: Iterable[fx.Node], label: str) -> dict[fx.Node, Callable[..., Any]]:
        given = {node: self.replacements[node.name] for node in nodes}
        return {node: by_label[label] for node, by_label in given.items() if label in by_label}

    def result(self) -> Sensitivity:
        if self.num_samples == 0:
            raise ValueError("there are no batches to measure sensitivity on")
        alone, all_but = self._by_node(self.alone, own=True), self._by_node(self.all_but, own=False)
        quantized = {label: sums.effect(self.plain) for label, sums in self.quantized.items()}
        loss, accuracy = _read(self.plain)
        return Sensitivity(alone, all_but, quantized, loss, accuracy, self.num_samples)

    def _by_node(self, found: Mapping[tuple[_Unit, str], _Sums], *, own: bool) -> dict[str, dict[str, Effect]]:
        units = {node: unit for unit in self.units for node in unit}
        return {
            node.name: {
                label: found[units[node], label].effect(self.plain, node.name if own else None)
                for label in self.replacements[node.name]
                if (units[node], label) in found
            }
            for node in self.nodes
            if node in units
        }


def _forget_own(nodes: Iterable[fx.Node]) -> None:
    """Drop the rounded weights of the graph's own layers, while those of their replacements are used."""
    forget_rounded(*(node.meta["mase"].module for node in nodes))


def _read(score: Score) -> tuple[float, float] | tuple[None, None]:
    """Return loss and accuracy. A loss of NaN is infinite, so that a model that diverges ranks last."""
    if score.num_samples == 0:
        return None, None
    loss, accuracy = score.read()
    return math.inf if math.isnan(loss) else loss, accuracy


def _difference(now: float | None, before: float | None) -> float | None:
    if now is None or before is None:
        return None
    return 0.0 if now == before == math.inf else now - before
