"""Accuracy and loss of configurations, one after the other, on one prepared model."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, fx

from chop.dataset import Rows
from chop.formats import Format
from chop.ir import MaseGraph, NodeMeta
from chop.ir.graph.incremental import Rerun
from chop.ir.graph.result_cache import Remembered
from chop.nn.quantized import QuantConfig, QuantizedCall, QuantizedLayer
from chop.passes.quantization.replacement import formats_of, replacement

MEMORY = 2**30
"""Bytes of activations, and of rounded weights, that are kept from one configuration to the next."""
BATCH_NUMBERS = 2**19
"""Most numbers in a tensor of a batch, or nearly so: more would not stay in the processor's cache."""

GoOn = Callable[[int, float], bool]
"""Whether to go on, from the number of rows seen and the accuracy on them."""


class Evaluator:
    """A graph and rows in memory. Formats change in place: nothing is copied, traced or annotated again.

    Rounded weights are kept for each layer and format, and of each batch the values of all nodes, so that only
    what changed since the last configuration, and what depends on it, is computed; and not even that, if the same
    began an earlier configuration.
    """

    def __init__(
        self, graph: MaseGraph, input_name: str, rows: Rows, *, num_batches: int = 1, memory: int = MEMORY
    ) -> None:
        """At least `num_batches` batches: after each of them an evaluation can be ended."""
        graph.model.eval()
        self.graph, self.input_name, self._rows = graph, input_name, rows
        self._memory = memory
        remembered = Remembered(memory // 2)
        parts = _cut(rows, graph.annotated_metas(), num_batches)
        self._batches = [_Batch(graph, input_name, part, remembered) for part in parts]
        self._kept = 0
        self._formats: dict[Format, Format] = {}
        self._rounded: dict[tuple[fx.Node, str, Format], QuantizedLayer] = {}

    def replacement(self, meta: NodeMeta, config: QuantConfig) -> QuantizedLayer | QuantizedCall:
        """What stands for a node in a configuration, to be used again whenever that comes up again."""
        found, _ = formats_of(meta, config)
        formats = {name: self._formats.setdefault(each, each) for name, each in found.items()}
        made = replacement(meta, formats, config.name)
        if isinstance(made, QuantizedLayer):
            self._share_rounded(meta.node, made)
        return made

    def evaluate(self, replaced: Mapping[fx.Node, Callable[..., Any]], go_on: GoOn | None = None) -> Evaluated:
        """Loss and accuracy with these in the place of their nodes; `go_on` may end it early."""
        loss, correct, seen = 0.0, 0, 0
        for batch in self._batches:
            batch_loss, batch_correct = batch.evaluate(replaced)
            loss, correct, seen = loss + batch_loss, correct + batch_correct, seen + batch.num_rows
            self._make_room(batch)
            if go_on is not None and not go_on(seen, correct / seen):
                break
        return Evaluated(correct / seen, loss / seen, seen)

    def outputs(self, replaced: Mapping[fx.Node, Callable[..., Any]]) -> list[Tensor]:
        """What the graph gives for each batch, with these in the place of their nodes."""
        found = []
        for batch in self._batches:
            found.append(batch.output(replaced))
            self._make_room(batch)
        return found

    def on_fewer(self, num_rows: int) -> Evaluator:
        """The same graph on the first rows only; what stands for nodes here does so there."""
        rows = Rows(self._rows.features[:num_rows], self._rows.labels[:num_rows])
        return Evaluator(self.graph, self.input_name, rows, memory=self._memory)

    @property
    def num_rows(self) -> int:
        return self.ends[-1]

    @property
    def ends(self) -> list[int]:
        """How many rows are seen after each batch."""
        return list(itertools.accumulate(batch.num_rows for batch in self._batches))

    def _share_rounded(self, node: fx.Node, layer: QuantizedLayer) -> None:
        """Weights in the same format are rounded once, whatever the other operands are in."""
        layer.cache_weights = self._kept <= self._memory
        for name in layer.held:
            if name in layer.formats and getattr(layer, name) is not None:
                other = self._rounded.setdefault((node, name, layer.formats[name]), layer)
                if other is layer:
                    self._kept += getattr(layer, name).nbytes
                else:
                    layer.take_rounded(name, other)

    def _make_room(self, batch: _Batch) -> None:
        """The first batches keep their values; those for which there is no room run whole each time."""
        if batch.weighed:
            return
        batch.weighed = True
        room = self._memory // 2 - sum(each.nbytes for each in self._batches if each is not batch)
        if batch.nbytes > room:
            batch.keep_nothing()


@dataclass(frozen=True)
class Evaluated:
    accuracy: float
    loss: float
    num_rows: int
    """Fewer than all, if it was ended early."""


class _Batch:
    """Some rows, and the graph on them."""

    def __init__(self, graph: MaseGraph, input_name: str, rows: Rows, remembered: Remembered) -> None:
        self._graph, self._inputs, self._labels = graph, {input_name: rows.features}, rows.labels
        self._rerun = Rerun(graph, self._inputs, remembered=remembered)
        self._seen: tuple[Tensor, tuple[float, int]] | None = None
        self.num_rows = len(rows.labels)
        self.weighed = False

    @property
    def nbytes(self) -> int:
        return self._rerun.nbytes

    def evaluate(self, replaced: Mapping[fx.Node, Callable[..., Any]]) -> tuple[float, int]:
        """The sum of losses, and how many answers are right."""
        logits = self.output(replaced)
        if self._seen is None or self._seen[0] is not logits:
            with torch.no_grad():
                # The cross entropy, in a third of the time that `F.cross_entropy` takes for few classes.
                right = logits.gather(1, self._labels.unsqueeze(1))
                loss = (logits.logsumexp(dim=1).sum() - right.sum()).item()
                correct = int((logits.argmax(dim=1) == self._labels).sum().item())
            self._seen = (logits, (loss, correct))
        return self._seen[1]

    def output(self, replaced: Mapping[fx.Node, Callable[..., Any]]) -> Tensor:
        found: Tensor = self._rerun.run(replaced)
        return found

    def keep_nothing(self) -> None:
        self._rerun = Rerun(self._graph, self._inputs, keep=False)


def _cut(rows: Rows, metas: Sequence[NodeMeta], at_least: int) -> list[Rows]:
    """Batches of about the same size."""
    annotated = max(1, next((m.results["data_out_0"].shape[0] for m in metas if m.node.op == "placeholder"), 1))
    widest = max(tensor.numel for meta in metas for tensor in meta.results.values()) / annotated
    num_batches = max(at_least, math.ceil(len(rows.labels) * widest / BATCH_NUMBERS))
    size = math.ceil(len(rows.labels) / num_batches)
    parts = zip(rows.features.split(size), rows.labels.split(size), strict=True)
    return [Rows(features, labels) for features, labels in parts]
