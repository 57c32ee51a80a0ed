"""Training of weights together with their number of bits; every step is a point between accuracy and cost."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, fx

from chop.config import Granularity, WidthTrainingOptions
from chop.dataset import Rows
from chop.hardware.resolve import fold_batch_norms
from chop.hardware.resolve.batch_norm import NORMS, WEIGHTED, is_affine, make_affine
from chop.hardware.resolve.layers import replace_layer, set_formats, with_parameters
from chop.ir import MaseGraph, NodeMeta
from chop.ir.graph.device import device_of
from chop.ir.graph.interpreter import NodeInterpreter, bind_inputs
from chop.nn.learned_widths import CostTerm, LearnedInput, LearnedLayer
from chop.tasks.base import first_tensor

RANGE_STEPS = 100
"""Steps after which the ranges of activations are measured again."""
RANGE_ROWS = 8192
ROWS_AT_ONCE = 4096
Arguments = Callable[[Tensor], dict[str, Tensor]]
"""Returns the arguments of a model for rows."""


@dataclass(frozen=True)
class StartingWidths:
    """The bits of a node's weights and inputs before the first step; fewer are learned, down to 0."""

    weight: int = 8
    data: int = 8


class WidthTraining:
    """A run with a rising weight of the cost. The weights start from those of a graph, which stays unchanged.

    Batch norms are folded first. `graph_at` returns the quantised graph after a number of steps.
    """

    def __init__(
        self,
        graph: MaseGraph,
        arguments: Arguments,
        rows: Rows,
        widths: Mapping[str, StartingWidths],
        options: WidthTrainingOptions,
        cost: CostTerm = "ebops",
        seed: int = 0,
    ) -> None:
        self._original, self._arguments, self._rows = graph, arguments, rows
        self._widths, self._options = widths, options
        self._cost_term, self._seed = cost, seed
        self._start()

    def graph_at(self, step: int) -> MaseGraph:
        """Return the graph after `step` steps and fine-tuning, in format `mixed_integer`.

        The run starts again if it is past this step.
        """
        if step < self.step:
            self._start()
        while self.step < step:
            self._train_step()
        graph = self._quantized()
        self._finetune(graph)
        return graph

    def cost(self) -> Tensor:
        """Return the cost of all learned layers for one row."""
        return torch.stack([layer.cost(self._cost_term) for layer in self.layers.values()]).sum()

    def _start(self) -> None:
        self._graph = _prepared(self._original, self._widths)
        self._random = torch.Generator().manual_seed(self._seed)
        self.layers = self._make_layers()
        self.step = 0
        operands = (each for layer in self.layers.values() for each in (layer.weight, layer.bias, layer.data))
        self._rounded = list(dict.fromkeys(operand for operand in operands if operand is not None))
        fractions = [operand.fraction for operand in self._rounded]
        weights = {id(p): p for layer in self.layers.values() for p in layer.layer.parameters()}
        groups = [{"params": fractions}, {"params": list(weights.values())}]
        self._optimizer = torch.optim.Adam(groups)  # each step sets their learning rates
        self._interpreter = _ReplacingInterpreter(self._graph.model, self.layers)
        self._learning_rates = self._options.width_learning_rate, self._options.weight_learning_rate
        self._measure_ranges(RANGE_ROWS)
        self._first_cost = float(self.cost().detach()) or 1.0

    @property
    def _inputs(self) -> list[LearnedInput]:
        return list(dict.fromkeys(layer.data for layer in self.layers.values()))

    def _make_layers(self) -> dict[fx.Node, LearnedLayer]:
        """Return what replaces the nodes that learn widths."""
        metas = [meta for meta in self._graph.annotated_metas() if meta.node.name in self._widths]
        recorder = _RangeRecorder(self._graph.model, [meta.node.all_input_nodes[0] for meta in metas])
        for rows in self._rows.features[:RANGE_ROWS].split(ROWS_AT_ONCE):
            with torch.no_grad():
                recorder.run(*bind_inputs(self._graph, self._arguments(rows)))
        inputs: dict[tuple[fx.Node, tuple[int, ...]], LearnedInput] = {}
        found = {}
        for meta in metas:
            source, shape = meta.node.all_input_nodes[0], _data_shape(meta, self._options.granularity)
            start = self._widths[meta.node.name]
            data = inputs.setdefault((source, shape), LearnedInput(*recorder.ranges[source], start.data, shape))
            assert meta.op is not None, "only layers of known ops have widths"
            given = (_num_positions(meta), data, start.weight, self._options.granularity)
            found[meta.node] = LearnedLayer(meta.module, meta.op, *given)
        return found

    def _measure_ranges(self, num_rows: int) -> None:
        for data in self._inputs:
            data.low.zero_()
            data.high.zero_()
        for layer in self.layers.values():
            layer.records_range = True
        with torch.no_grad():
            for rows in self._rows.features[:num_rows].split(ROWS_AT_ONCE):
                self._run(rows)
        for layer in self.layers.values():
            layer.records_range = False

    def _run(self, features: Tensor) -> Any:
        return self._interpreter.run(*bind_inputs(self._graph, self._arguments(features)))

    def _loss(self, run: Callable[[Tensor], Any], random: torch.Generator) -> Tensor:
        """Return the loss on the next rows drawn by `random`, given what runs the model on rows."""
        chosen = torch.randint(len(self._rows.labels), (self._options.batch_size,), generator=random)
        logits = first_tensor(run(self._rows.features[chosen].to(device_of(self._graph.model))))
        return F.cross_entropy(logits, self._rows.labels[chosen].to(logits.device))

    def _train_step(self) -> None:
        options = self._options
        if self.step % RANGE_STEPS == 0 and self.step:
            self._measure_ranges(RANGE_ROWS)
        progress = self.step / max(1, options.steps - 1)
        share = options.decay_to + (1 - options.decay_to) * _half_cosine(progress)
        for group, rate in zip(self._optimizer.param_groups, self._learning_rates, strict=True):
            group["lr"] = share * rate
        growth = (options.beta_to / options.beta_from) ** progress
        with torch.enable_grad():
            loss = self._loss(self._run, self._random)
            (loss + options.beta_from * growth / self._first_cost * self.cost()).backward()
        self._optimizer.step()
        self._optimizer.zero_grad()
        with torch.no_grad():
            for operand in self._rounded:
                operand.fraction.clamp_(operand.least, operand.most)
        self.step += 1

    def _finetune(self, graph: MaseGraph) -> None:
        """Train the weights in place, with a learning rate that falls to zero along half a cosine."""
        options, random = self._options, torch.Generator().manual_seed(self._seed)
        optimizer = torch.optim.Adam(graph.model.parameters())
        for step in range(options.finetune_steps):
            share = _half_cosine(step / options.finetune_steps)
            optimizer.param_groups[0]["lr"] = options.weight_learning_rate * share
            with torch.enable_grad():
                self._loss(lambda features: graph.model(**self._arguments(features)), random).backward()
            optimizer.step()
            optimizer.zero_grad()

    def _quantized(self) -> MaseGraph:
        """Return a copy of the graph with the weights and formats of this step."""
        kept = [(data, data.low.clone(), data.high.clone()) for data in self._inputs]
        self._measure_ranges(len(self._rows.labels))
        graph = copy.deepcopy(self._graph)
        metas = {meta.node.name: meta for meta in graph.annotated_metas()}
        for node, layer in self.layers.items():
            meta = metas[node.name]
            values = {name: value.detach().clone() for name, value in layer.layer.named_parameters()}
            assert meta.module is not None, "only layers have widths"
            replace_layer(meta, with_parameters(meta.module, values))
            set_formats(meta, layer.formats())
        for data, low, high in kept:  # else the training would depend on which of its steps are trials
            data.low.copy_(low)
            data.high.copy_(high)
        return graph


def _prepared(original: MaseGraph, widths: Mapping[str, StartingWidths]) -> MaseGraph:
    """Return a copy of a graph whose batch norms are folded, or affine if their widths are learned."""
    graph = copy.deepcopy(original)
    fold_batch_norms(graph)
    for meta in graph.annotated_metas():
        if meta.mase_op in NORMS and meta.node.name in widths and not is_affine(meta.module):
            make_affine(meta)
    graph.model.eval()
    for parameter in graph.model.parameters():
        parameter.requires_grad_(True)
    return graph


def learnable(meta: NodeMeta) -> bool:
    """Whether the widths of a node can be learned element by element."""
    return meta.mase_op in (*WEIGHTED, *NORMS) and meta.module is not None


def _data_shape(meta: NodeMeta, granularity: Granularity) -> tuple[int, ...]:
    """Return the shape of the widths of a node's input: its elements, its channels, or one width for all."""
    shape = tuple(meta.args["data_in_0"].shape[1:])
    if meta.mase_op == "linear":
        return shape[-1:] if granularity == "element" else (1,)
    return (shape[0], *(1,) * (len(shape) - 1))


def _num_positions(meta: NodeMeta) -> int:
    """Return how often each weight is used for one row."""
    shape = meta.results["data_out_0"].shape[1:]
    places = shape[:-1] if meta.mase_op == "linear" else shape[1:]
    return int(torch.Size(places).numel())


class _ReplacingInterpreter(NodeInterpreter):
    """A run of a graph with gradients, and with some nodes replaced."""

    def __init__(self, model: fx.GraphModule, replacements: Mapping[fx.Node, Callable[..., Any]]) -> None:
        super().__init__(model)
        self._replacements = replacements

    def run_node(self, n: fx.Node) -> Any:
        if n not in self._replacements:
            return super().run_node(n)
        args, kwargs = self.fetch_args_kwargs_from_env(n)
        return self._replacements[n](*args, **kwargs)


class _RangeRecorder(NodeInterpreter):
    """A run of a graph that records the smallest and largest values of some results, element by element."""

    def __init__(self, model: fx.GraphModule, nodes: Sequence[fx.Node]) -> None:
        super().__init__(model)
        self._nodes = set(nodes)
        self.ranges: dict[fx.Node, tuple[Tensor, Tensor]] = {}

    def after(self, node: fx.Node, result: Any) -> None:
        if node in self._nodes:
            low, high = result.amin(0), result.amax(0)
            seen_low, seen_high = self.ranges.get(node, (low, high))
            self.ranges[node] = torch.minimum(low, seen_low), torch.maximum(high, seen_high)


def _half_cosine(progress: float) -> float:
    """Return a share that falls from 1 to 0."""
    return (1 + math.cos(math.pi * progress)) / 2


def steps_of_trials(steps: int, num_trials: int) -> Iterator[int]:
    """Yield the steps at which the graph becomes a trial: evenly spaced, the last one included."""
    number = min(steps, num_trials)
    for index in range(1, number + 1):
        yield round(index * steps / number)
