"""Loss and accuracy of many configurations in turn, on one prepared graph."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, fx

from chop.dataset import Rows
from chop.dataset.splits import IGNORED
from chop.formats import Format
from chop.ir import MaseGraph, NodeMeta
from chop.ir.graph.device import device_of
from chop.ir.graph.incremental import IncrementalRun, Replacements
from chop.ir.graph.meta import annotated_batch_size
from chop.ir.graph.result_cache import ResultCache
from chop.nn.quantized import QuantConfig, QuantizedCall, QuantizedLayer
from chop.nn.quantized.layer_classes import with_compiled_rounding
from chop.passes.quantization.replacement import formats_of, make_replacement
from chop.statistics.scoring import correct_predictions, fast_scores, per_token
from chop.tasks.base import first_tensor

MAX_CACHE_BYTES = 2**30
"""Memory for the activations and rounded weights that are kept from one configuration to the next."""
MAX_BATCH_ELEMENTS = 2**19
"""Elements of the largest tensor of a batch, approximately; larger tensors do not fit the processor's cache."""

Arguments = Callable[[Tensor], Mapping[str, Tensor]]
Inputs = str | Arguments
"""The name of the graph's only argument, or a function from rows to its arguments by name."""
AfterBatch = Callable[[int, float], bool]
"""Whether to continue, given the number of rows evaluated so far and the accuracy on them."""


@dataclass(frozen=True)
class PartialEvaluation:
    """Loss and accuracy on the rows that were evaluated: all of them, unless the evaluation was stopped."""

    accuracy: float
    loss: float
    num_rows: int


class Evaluator:
    """A graph and the rows to evaluate it on. Nothing is copied, traced or annotated again for a configuration.

    Rounded weights are cached per layer and format, and the values of all nodes per batch. A configuration
    computes only the nodes that differ from the configuration before, and those that depend on them; if an
    earlier configuration began in the same way, its values are used again.
    """

    def __init__(
        self,
        graph: MaseGraph,
        inputs: Inputs,
        rows: Rows,
        *,
        num_batches: int = 1,
        memory: int = MAX_CACHE_BYTES,
        compiles: bool = False,
    ) -> None:
        """Split the rows into at least `num_batches` batches; an evaluation can be stopped after each of them.

        `inputs` is the argument of the graph that takes the rows, or returns its arguments for some rows.
        `compiles`: torch.compile makes what rounds.
        """
        graph.model.eval()
        self.graph, self.rows = graph, rows
        self.arguments = (lambda features: {inputs: features}) if isinstance(inputs, str) else inputs
        self._memory, self._compiles = memory, compiles
        cache = ResultCache(memory // 2)
        batches = _split(rows, graph.annotated_metas(), num_batches)
        self._batches = [_EvaluatedBatch(graph, self.arguments, batch, cache) for batch in batches]
        self._replaceable: Collection[fx.Node] | None = None
        self._rounded_bytes = 0
        self._formats: dict[Format, Format] = {}
        self._rounded: dict[tuple[fx.Node, str, Format], QuantizedLayer] = {}

    def replace_only(self, nodes: Collection[fx.Node]) -> None:
        """Promise that no configuration replaces other nodes, so that fewer values are kept."""
        self._replaceable = nodes
        for batch in self._batches:
            batch.replace_only(nodes)

    def replacement(self, meta: NodeMeta, config: QuantConfig) -> QuantizedLayer | QuantizedCall:
        """Return what replaces a node in a config, for repeated use."""
        found, _ = formats_of(meta, config)
        formats = {name: self._formats.setdefault(each, each) for name, each in found.items()}
        new = make_replacement(meta, formats, config.name)
        new = with_compiled_rounding(new) if self._compiles else new
        if isinstance(new, QuantizedLayer):
            self._share_rounded_weights(meta.node, new)
        return new

    def evaluate(self, replacements: Replacements, should_continue: AfterBatch | None = None) -> PartialEvaluation:
        """Return loss and accuracy with some nodes replaced; `should_continue` can stop it after each batch."""
        loss, correct, seen, predictions = 0.0, 0, 0, 0
        for batch in self._batches:
            batch_loss, batch_correct = batch.evaluate(replacements)
            loss, correct, seen = loss + batch_loss, correct + batch_correct, seen + batch.num_rows
            predictions += batch.num_predictions
            self._limit_memory(batch)
            if should_continue is not None and not should_continue(seen, correct / predictions):
                break
        return PartialEvaluation(correct / predictions, loss / predictions, seen)

    def outputs(self, replacements: Replacements) -> list[Tensor]:
        """Return the output of the graph for each batch, with some nodes replaced."""
        found = []
        for batch in self._batches:
            found.append(batch.output(replacements))
            self._limit_memory(batch)
        return found

    def correct(self, rows: Rows, replacements: Replacements) -> Tensor:
        """Return whether each prediction on other rows is right, with some nodes replaced; no values are kept."""
        other = Evaluator(self.graph, self.arguments, rows, memory=0)
        for batch in other._batches:
            batch.keep_no_values()
        return torch.cat([batch.correct(replacements) for batch in other._batches])

    def on_first_rows(self, num_rows: int) -> Evaluator:
        """Return an evaluator of the same graph on the first rows only; replacements fit both."""
        rows = Rows(self.rows.features[:num_rows], self.rows.labels[:num_rows])
        evaluator = Evaluator(self.graph, self.arguments, rows, memory=self._memory, compiles=self._compiles)
        if self._replaceable is not None:
            evaluator.replace_only(self._replaceable)
        return evaluator

    @property
    def num_rows(self) -> int:
        return self.batch_ends[-1]

    @property
    def batch_ends(self) -> list[int]:
        """The number of rows evaluated after each batch."""
        return list(itertools.accumulate(batch.num_rows for batch in self._batches))

    def _share_rounded_weights(self, node: fx.Node, layer: QuantizedLayer) -> None:
        """Let layers that differ only in the formats of other operands share their rounded weights."""
        layer.cache_weights = self._rounded_bytes <= self._memory
        for name in layer.parameter_names:
            if name in layer.formats and getattr(layer, name) is not None:
                other = self._rounded.setdefault((node, name, layer.formats[name]), layer)
                if other is layer:
                    self._rounded_bytes += getattr(layer, name).nbytes
                else:
                    layer.take_rounded(name, other)

    def _limit_memory(self, batch: _EvaluatedBatch) -> None:
        """Keep the values of a batch if there is room for them; otherwise it computes all nodes each time."""
        if batch.is_measured:
            return
        batch.is_measured = True
        room = self._memory // 2 - sum(each.nbytes for each in self._batches if each is not batch)
        if batch.nbytes > room:
            batch.keep_no_values()


class _EvaluatedBatch:
    """Some rows, and a graph that is run on them repeatedly."""

    def __init__(self, graph: MaseGraph, arguments: Arguments, rows: Rows, cache: ResultCache) -> None:
        self._graph, self._inputs, self._labels = (
            graph,
            arguments(rows.features),
            rows.labels.to(device_of(graph.model)),
        )
        self._cache = cache
        self._run = IncrementalRun(graph, self._inputs, cache=cache)
        self._last: tuple[Tensor, tuple[float, int]] | None = None
        self.num_rows = len(rows.labels)
        self.num_predictions = int((rows.labels != IGNORED).sum())  # tokens of a text, or rows
        self.is_measured = False
        """Whether the memory of its values is known."""

    @property
    def nbytes(self) -> int:
        return self._run.nbytes

    def evaluate(self, replacements: Replacements) -> tuple[float, int]:
        """Return the sum of the losses and the number of correct predictions."""
        logits = self.output(replacements)
        if self._last is None or self._last[0] is not logits:
            with torch.no_grad():
                self._last = (logits, fast_scores(*per_token(logits, self._labels)))
        return self._last[1]

    def output(self, replacements: Replacements) -> Tensor:
        return first_tensor(self._run.run(replacements))

    def correct(self, replacements: Replacements) -> Tensor:
        return correct_predictions(self.output(replacements), self._labels).cpu()

    def replace_only(self, nodes: Collection[fx.Node]) -> None:
        self._run = IncrementalRun(self._graph, self._inputs, cache=self._cache, replaceable=nodes)

    def keep_no_values(self) -> None:
        self._run = IncrementalRun(self._graph, self._inputs, keep=False)


def _split(rows: Rows, metas: Sequence[NodeMeta], min_batches: int) -> list[Rows]:
    """Split rows into batches of about the same size."""
    largest = max(tensor.numel for meta in metas for tensor in meta.results.values())
    elements_per_row = largest / annotated_batch_size(metas)
    num_batches = max(min_batches, math.ceil(len(rows.labels) * elements_per_row / MAX_BATCH_ELEMENTS))
    size = math.ceil(len(rows.labels) / num_batches)
    batches = zip(rows.features.split(size), rows.labels.split(size), strict=True)
    return [Rows(features, labels) for features, labels in batches]
