"""Incremental execution: a graph runs repeatedly on the same inputs, with some nodes replaced each time."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, fx

from chop.ir.graph.interpreter import bind_inputs, tensors_in
from chop.ir.graph.mase_graph import MaseGraph
from chop.ir.graph.result_cache import ResultCache
from chop.ir.graph.steps import Step, steps_of
from chop.nn.quantized import QuantizedLayer

Replacements = Mapping[fx.Node, Callable[..., Any]]
"""By node: the layer or function that is called instead of the node's own."""


@dataclass
class NodeValues:
    """The value of every node that is a step in one run: `values[node]`."""

    replaced: Replacements
    """What was replaced in the run."""
    by_step: list[Any]
    is_cached: list[bool]
    """Whether the value of a step is in the cache, or has been the same in all runs."""
    _indices: Mapping[fx.Node, int]

    def __getitem__(self, node: fx.Node) -> Any:
        return self.by_step[self._indices[node]]

    @property
    def output(self) -> Any:
        """The output of the graph."""
        return self.by_step[-1]

    @property
    def nbytes(self) -> int:
        """The memory of all values; memory that several values share is counted once."""
        storages = (tensor.untyped_storage() for tensor in tensors_in(self.by_step))
        return sum({storage.data_ptr(): storage.nbytes() for storage in storages}.values())

    def copied(self) -> NodeValues:
        """Return the same values in new lists; the values themselves are shared."""
        return NodeValues(self.replaced, list(self.by_step), list(self.is_cached), self._indices)


@dataclass(frozen=True)
class _Observations:
    """What the first run shows about a graph; it holds for all later runs."""

    in_place: bool
    """True if a value that is read later shares memory with an overwritten input. If False, nodes that work in
    place work on a copy, so that the value of their input can be used again."""
    reusable: bool
    """True if a run can start from the values of the previous one: they are kept, and no node overwrote any."""
    random_states: Mapping[fx.Node, Tensor]
    """The state of the random generator before each node that draws from it, so that all runs draw the same."""


class IncrementalRun:
    """A graph with fixed inputs; after the first run, only changed nodes and those that depend on them run again.

    A chain `a -> b -> c` that ran before and runs again with `b` replaced computes `b` and `c`, and takes the
    value of `a` from the run before. The model runs without gradients and in its current mode; use `undisturbed`
    around it to set evaluation mode.
    """

    def __init__(
        self,
        graph: MaseGraph,
        inputs: Mapping[str, Any],
        *,
        keep: bool = True,
        cache: ResultCache | None = None,
        replaceable: Collection[fx.Node] | None = None,
    ) -> None:
        """Prepare a graph. With `keep=False` values are not kept, and each run computes all nodes.

        `cache` also keeps results from runs before the last one, and may be shared with other graphs and inputs.
        If only the nodes `replaceable` are ever replaced, most values between them are not kept: writing them to
        memory takes a large part of the time of small layers.
        """
        self._steps = steps_of(graph, bind_inputs(graph, inputs), replaceable)
        self._indices = {step.node: step.index for step in self._steps}
        self._keep = keep
        self._cache = cache
        self._observed: _Observations | None = None
        self._last: NodeValues | None = None

    @property
    def values(self) -> NodeValues:
        """The values of the last run."""
        if self._last is None:
            raise ValueError("no values are kept: nothing has run, the last run failed, or keep=False")
        return self._last

    @property
    def nbytes(self) -> int:
        """The memory of the values that are kept."""
        return 0 if self._last is None else self._last.nbytes

    def run(self, replaced: Replacements | None = None) -> Any:
        """Return the graph's output with the nodes in `replaced` replaced, and all others unchanged."""
        start, self._last = self._last, None  # after an error, `start` is a mixture of two runs
        finished = self._run(dict(replaced or {}), start)
        if self._keep:
            self._last = finished
        return finished.output

    def peek(self, replaced: Replacements) -> NodeValues:
        """Return the output with `replaced` in addition to the last run's replacements, and the replaced values.

        `self.values` stays. Other values are dropped when no later node reads them: without this, a peek at the
        first node takes as much memory as all values that are kept.
        """
        if self._last is None:
            self.run()
        start = None if self._last is None else self._last.copied()
        together = {**(start.replaced if start is not None else {}), **replaced}
        return self._run(together, start, {self._indices[node] for node in replaced})

    def _run(
        self, replaced: Replacements, start: NodeValues | None, kept: Collection[int] | None = None
    ) -> NodeValues:
        """Run the graph; values of `start` that still hold are used again, and the others are overwritten.

        `kept` are the steps whose values are kept until the end; None: those of all steps.
        """
        if self._observed is None:
            self._observed, values = self._first_run(replaced)
        elif start is None or not self._observed.reusable:
            values = self._new_values(replaced)
            self._run_all(values, self._observed)
        else:
            values = start
            self._update(values, replaced, self._observed, kept)
        return values

    def _new_values(self, replaced: Replacements) -> NodeValues:
        count = len(self._steps)
        return NodeValues(replaced, [None] * count, [True] * count, self._indices)

    @torch.no_grad()
    def _first_run(self, replaced: Replacements, *, in_place: bool = False) -> tuple[_Observations, NodeValues]:
        """Run all nodes and observe what they do to memory and to the random generator."""
        values, observed = self._new_values(replaced), _Observations(in_place, reusable=False, random_states={})
        versions: list[tuple[Tensor, int]] = []
        random_states: dict[fx.Node, Tensor] = {}
        for step in self._steps:
            if not in_place and self._overwrites_shared_memory(step, values):
                return self._first_run(replaced, in_place=True)
            state = torch.get_rng_state()
            result = values.by_step[step.index] = _compute(step, values, observed)
            if not torch.equal(state, torch.get_rng_state()):
                random_states[step.node] = state
            if self._keep:
                versions += [(tensor, tensor._version) for tensor in tensors_in(result)]
            else:
                _release(step, values)
        unchanged = all(tensor._version == version for tensor, version in versions)
        return _Observations(in_place, self._keep and not in_place and unchanged, random_states), values

    def _overwrites_shared_memory(self, step: Step, values: NodeValues) -> bool:
        """Return whether a value that a later step reads shares memory with the input that a step overwrites."""
        if not step.overwrites:
            return False
        written = _memory_of(values.by_step[step.sources[0]])
        read_later = (values.by_step[other.index] for other in self._steps if other.last_reader > step.index)
        return any(_memory_of(value) & written for value in read_later)

    @torch.no_grad()
    def _run_all(self, values: NodeValues, observed: _Observations) -> None:
        for step in self._steps:
            values.by_step[step.index] = _compute(step, values, observed)
            if not self._keep:
                _release(step, values)

    @torch.no_grad()
    def _update(
        self, values: NodeValues, replaced: Replacements, observed: _Observations, kept: Collection[int] | None
    ) -> None:
        """Run the nodes whose replacement changed, and those that depend on them."""
        before, values.replaced = values.replaced, replaced
        must_run = [False] * len(self._steps)
        for node in replaced.keys() | before.keys():
            must_run[self._indices[node]] = replaced.get(node) is not before.get(node)
        for step in self._steps:
            index = step.index
            if must_run[index]:
                old = values.by_step[index]
                if self._cache is None:
                    result = _compute(step, values, observed)
                else:
                    result = _compute_cached(step, values, observed, self._cache)
                values.by_step[index] = result
                if result is not old:
                    for reader in step.readers:
                        must_run[reader] = True
            if kept is not None:
                _release(step, values, kept)


def _compute_cached(step: Step, values: NodeValues, observed: _Observations, cache: ResultCache) -> Any:
    """Return the result of a step, from the cache if the same function was called with the same values before.

    A new result is cached only if everything it was computed from is cached. The result of a replaced node is
    cached the second time it is computed, since many replacements are used in one run only. Example: in the chain
    `input -> a -> b`, three runs replace `a` by `a8`, with other runs between them.

    - The first run computes `a8(input)`, which is not cached, so `b(a8(input))` is not cached either.
    - The second run computes both again, and caches both.
    - The third run computes nothing.
    """
    for source in step.sources:
        if not values.is_cached[source]:
            values.is_cached[step.index] = False
            return _compute(step, values, observed)
    function = values.replaced.get(step.node, step.function)
    computed_from = (step, function, *[values.by_step[source] for source in step.sources])
    is_cached, result = cache.find(computed_from)
    if not is_cached:
        result = _compute_rounded(step, function, values, cache)
        if result is None:
            result = _compute(step, values, observed)
        is_cached = cache.add(computed_from, result, at_once=step.node not in values.replaced)
    values.is_cached[step.index] = is_cached
    return result


def _compute_rounded(step: Step, function: Any, values: NodeValues, cache: ResultCache) -> Any:
    """Return the result of a layer with a cached rounded input; None if the function is not such a layer.

    Layers that differ only in the formats of their weights share the input. A layer that overwrites its input
    would overwrite the cached one.
    """
    if step.overwrites or not isinstance(function, QuantizedLayer):
        return None
    value = values.by_step[step.sources[0]]
    if not function.can_share_rounded(value):
        return None
    computed_from = (function.formats["data_in_0"], value)
    is_cached, rounded = cache.find(computed_from)
    if not is_cached:
        rounded = step.rounded_input(function, value)
        cache.add(computed_from, rounded)
    return step.call_rounded(function, rounded)


def _compute(step: Step, values: NodeValues, observed: _Observations) -> Any:
    function = values.replaced.get(step.node, step.function)
    state = observed.random_states.get(step.node) if observed.random_states else None
    if state is None:
        return step.call(values.by_step, function, in_place=observed.in_place)
    with torch.random.fork_rng(devices=[]):
        torch.set_rng_state(state)
        return step.call(values.by_step, function, in_place=observed.in_place)


def _release(step: Step, values: NodeValues, kept: Collection[int] = ()) -> None:
    """Drop the values that no later step reads, except those of the steps `kept`."""
    for source in step.last_reads:
        if source not in kept:
            values.by_step[source] = None


def _memory_of(value: Any) -> set[int]:
    return {tensor.untyped_storage().data_ptr() for tensor in tensors_in(value)}
