"""What becomes of a model's output when nodes are replaced: each alone, and all but each."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from torch import Tensor, fx, nn

from chop.ir import MaseGraph
from chop.ir.graph.incremental import Rerun
from chop.ir.graph.interpreter import undisturbed
from chop.registry import closest
from chop.statistics.batches import LabelledBatch, num_rows
from chop.statistics.deviation import Deviation
from chop.statistics.scoring import Score

Candidates = Mapping[str, Mapping[str, Callable[..., Any]]]
"""By the name of a node: what may take its place, by a label such as `"8"`."""
Group = tuple[fx.Node, ...]
"""Nodes that call the same layer, and so are replaced together."""


@dataclass(frozen=True)
class Effect:
    """What a replacement does, against the graph as it is; of loss and accuracy where there are labels."""

    output_sqnr_db: float
    """Signal-to-noise ratio of the model's output."""
    sqnr_db: float | None = None
    """That of the node's own output, if one node is replaced."""
    loss_change: float | None = None
    accuracy_change: float | None = None


@dataclass(frozen=True)
class Sensitivity:
    """The effect of every candidate."""

    alone: dict[str, dict[str, Effect]]
    """By node and label: only this node is replaced."""
    all_but: dict[str, dict[str, Effect]]
    """By node and label: all nodes are replaced by what they have under this label, but for this one."""
    quantized: dict[str, Effect]
    """By label: all are."""
    loss: float | None
    """Of the graph as it is."""
    accuracy: float | None
    num_samples: int


def measure_sensitivity(
    graph: MaseGraph,
    candidates: Candidates,
    batches: Iterable[LabelledBatch],
    *,
    nodes: Collection[str] | None = None,
    both: bool = True,
) -> Sensitivity:
    """The effect of each candidate alone and, if `both`, of all others without it; of `nodes` only, if given.

    Batches are run one after the other, and for each candidate only what depends on it: time goes with the depth
    of the nodes, memory with one batch. The graph, its mode and the random state are left as they were.
    """
    measuring = _Measuring(graph, candidates, nodes, both)
    with undisturbed(graph.model), _in_evaluation(candidates):
        for inputs, labels in batches:
            measuring.add(inputs, labels)
    return measuring.result()


class _Sums:
    """One way of replacing nodes, over the batches so far."""

    def __init__(self) -> None:
        self.output = Deviation()
        self.own: defaultdict[str, Deviation] = defaultdict(Deviation)
        self.score = Score()

    def add(self, plain: Any, output: Any, labels: Tensor | None) -> None:
        self.output.add(plain, output)
        if labels is not None:
            self.score.add(output, labels)

    def effect(self, plain: Score, node: str | None = None) -> Effect:
        return Effect(
            self.output.sqnr_db,
            None if node is None else self.own[node].sqnr_db,
            _difference(self.score.loss, plain.loss),
            _difference(self.score.accuracy, plain.accuracy),
        )


class _Measuring:
    """All sums: of the plain graph, and by label and group."""

    def __init__(self, graph: MaseGraph, candidates: Candidates, nodes: Collection[str] | None, both: bool) -> None:
        self.graph, self.candidates, self.both = graph, candidates, both
        found = {node.name: node for node in graph.fx_graph.nodes}
        for name in candidates:
            if name not in found:
                raise ValueError(f"there is no node '{name}'; {closest(name, found)}")
        wanted = candidates.keys() if nodes is None else nodes
        for name in wanted:
            if name not in candidates:
                raise ValueError(f"nothing can take the place of node '{name}'; {closest(name, candidates)}")
        self.nodes = [node for name, node in found.items() if name in candidates]
        self.groups = [group for group in _groups(self.nodes) if any(node.name in wanted for node in group)]
        self.plain = Score()
        self.alone: defaultdict[tuple[Group, str], _Sums] = defaultdict(_Sums)
        self.all_but: defaultdict[tuple[Group, str], _Sums] = defaultdict(_Sums)
        self.quantized: defaultdict[str, _Sums] = defaultdict(_Sums)
        self.num_samples = 0
        self.labelled: bool | None = None

    def add(self, inputs: Mapping[str, Any], labels: Tensor | None) -> None:
        if self.labelled not in (None, labels is not None):
            raise ValueError("either all batches have labels or none has")
        self.labelled = labels is not None
        self.num_samples += num_rows(inputs)
        rerun = Rerun(self.graph, inputs)
        plain = rerun.run()
        if labels is not None:
            self.plain.add(plain, labels)
        for group in self.groups:
            for label in self._labels(group):
                self._add_alone(rerun, plain, group, label, labels)
        for label in self._labels(self.nodes):
            self._add_together(rerun, plain, label, labels)

    def _add_alone(self, rerun: Rerun, plain: Any, group: Group, label: str, labels: Tensor | None) -> None:
        changed = rerun.peek(self._replaced(group, label))
        sums = self.alone[group, label]
        sums.add(plain, changed.output, labels)
        for node in group:
            sums.own[node.name].add(rerun.value(node), changed.value(node))

    def _add_together(self, rerun: Rerun, plain: Any, label: str, labels: Tensor | None) -> None:
        replaced = self._replaced(self.nodes, label)
        self.quantized[label].add(plain, rerun.run(replaced), labels)
        if self.both:
            # From the end: a step back changes one group more than the last, and nothing before it runs again.
            for group in reversed(self.groups):
                if label in self._labels(group):
                    rest = {node: new for node, new in replaced.items() if node not in group}
                    self.all_but[group, label].add(plain, rerun.run(rest), labels)

    def _labels(self, nodes: Iterable[fx.Node]) -> list[str]:
        return list(dict.fromkeys(label for node in nodes for label in self.candidates[node.name]))

    def _replaced(self, nodes: Iterable[fx.Node], label: str) -> dict[fx.Node, Callable[..., Any]]:
        given = {node: self.candidates[node.name] for node in nodes}
        return {node: by_label[label] for node, by_label in given.items() if label in by_label}

    def result(self) -> Sensitivity:
        if self.num_samples == 0:
            raise ValueError("there are no batches to measure sensitivity on")
        return Sensitivity(
            alone=self._by_node(self.alone, own=True),
            all_but=self._by_node(self.all_but, own=False),
            quantized={label: sums.effect(self.plain) for label, sums in self.quantized.items()},
            loss=self.plain.loss,
            accuracy=self.plain.accuracy,
            num_samples=self.num_samples,
        )

    def _by_node(self, found: Mapping[tuple[Group, str], _Sums], *, own: bool) -> dict[str, dict[str, Effect]]:
        groups = {node: group for group in self.groups for node in group}
        return {
            node.name: {
                label: found[groups[node], label].effect(self.plain, node.name if own else None)
                for label in self.candidates[node.name]
                if (groups[node], label) in found
            }
            for node in self.nodes
            if node in groups
        }


def _groups(nodes: Iterable[fx.Node]) -> list[Group]:
    found: dict[object, list[fx.Node]] = {}
    for node in nodes:
        found.setdefault(node.meta["mase"].module or node, []).append(node)
    return [tuple(group) for group in found.values()]


@contextmanager
def _in_evaluation(candidates: Candidates) -> Iterator[None]:
    """All layers among the candidates in evaluation mode, within."""
    found = (new for by_label in candidates.values() for new in by_label.values())
    modes = {layer: layer.training for layer in found if isinstance(layer, nn.Module)}
    for layer in modes:
        layer.eval()
    try:
        yield
    finally:
        for layer, mode in modes.items():
            layer.train(mode)


def _difference(now: float | None, before: float | None) -> float | None:
    if now is None or before is None:
        return None
    return 0.0 if now == before == math.inf else now - before
