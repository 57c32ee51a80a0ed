"""A graph on the same inputs again and again, with other things in the place of some nodes each time."""

from __future__ import annotations

import copy
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor, fx, nn
from torch.fx.node import map_aggregate

from chop.formats.float import Float
from chop.ir.graph.in_place import writes_in_place
from chop.ir.graph.interpreter import bind_inputs, tensors_in
from chop.ir.graph.mase_graph import MaseGraph
from chop.ir.graph.result_cache import Remembered
from chop.nn.quantized import QuantizedCall, QuantizedLayer
from chop.ops import op_of_module

Replaced = Mapping[fx.Node, Callable[..., Any]]
"""What is called instead of nodes."""


class Rerun:
    """Runs a graph on fixed inputs; after the first time only what was changed and what depends on it.

    The model is run as it is, without gradients: the caller sees to its mode (`undisturbed`). Values of all nodes
    are kept between runs, `nbytes` of them; with `keep=False` none are, and every run is a whole one.
    """

    def __init__(
        self,
        graph: MaseGraph,
        inputs: Mapping[str, Any],
        *,
        keep: bool = True,
        remembered: Remembered | None = None,
    ) -> None:
        """`remembered` keeps results of earlier runs too, which come up again where a prefix of the graph does."""
        self._steps = _steps(graph)
        self._places = {step.node: place for place, step in enumerate(self._steps)}
        self._inputs = bind_inputs(graph, inputs)
        self._keep = keep
        self._remembered = remembered
        self._copies = True
        """Nodes that overwrite their input are given a copy of it."""
        self._reusable = keep
        self._random: dict[fx.Node, Tensor] | None = None
        """The state of the random generator at each node that draws from it: all runs draw the same."""
        self._replaced: Replaced = {}
        self._values: list[Any] = []

    @property
    def nbytes(self) -> int:
        """Memory of the values that are kept."""
        storages = (tensor.untyped_storage() for tensor in tensors_in(self._values))
        return sum({storage.data_ptr(): storage.nbytes() for storage in storages}.values())

    @property
    def output(self) -> Any:
        """What came out of the last run."""
        return self.value(self._steps[-1].node)

    def value(self, node: fx.Node) -> Any:
        """What came out of a node in the last run."""
        if not self._values:
            raise ValueError(f"no value of node '{node.name}' is kept: nothing has been run, or keep=False")
        return self._values[self._places[node]]

    def run(self, replaced: Replaced | None = None) -> Any:
        """The graph's output, with each node of `replaced` done by what it names, and all others as they are."""
        wanted = dict(replaced or {})
        before, values = self._replaced, self._values
        self._values = []  # an error in the middle would leave values of two runs
        if values and self._reusable:
            changed = {node for node in wanted.keys() | before.keys() if wanted.get(node) is not before.get(node)}
            self._run_after(changed, wanted, values)
        else:
            values = self._run_all(wanted)
        if self._keep:
            self._values, self._replaced = values, wanted
        return values[-1]

    def peek(self, replaced: Replaced) -> Rerun:
        """The same graph with `replaced` besides what the last run replaced; here, all values stay as they are."""
        if not self._values:
            self.run(self._replaced)
        other = Rerun.__new__(Rerun)
        other.__dict__.update(vars(self))
        other._replaced = {**self._replaced, **replaced}
        if self._reusable:
            other._values = list(self._values)
            self._run_after(set(replaced), other._replaced, other._values)
        else:
            other._values = self._run_all(other._replaced)
        return other

    def _run_all(self, replaced: Replaced) -> list[Any]:
        values: list[Any] = [None] * len(self._steps)
        versions: list[tuple[Tensor, int]] = []
        random: dict[fx.Node, Tensor] = {}
        with torch.no_grad():
            for place, step in enumerate(self._steps):
                if self._copies and step.writes and self._is_seen_elsewhere(place, values):
                    self._copies = False  # whoever holds a view is to see what is written
                    return self._run_all(replaced)
                state = torch.get_rng_state() if self._random is None else None
                values[place] = self._result(step, values, replaced)
                if state is not None and not torch.equal(state, torch.get_rng_state()):
                    random[step.node] = state
                if self._keep:
                    versions += [(tensor, tensor._version) for tensor in tensors_in(values[place])]
                else:
                    for done in step.last_read:
                        values[done] = None
        # A value that a later node wrote into, or would if it were not replaced, is nothing to begin from.
        whole = all(tensor._version == version for tensor, version in versions)
        self._reusable = self._keep and self._copies and whole
        self._random = random if self._random is None else self._random
        return values

    def _is_seen_elsewhere(self, place: int, values: list[Any]) -> bool:
        """Whether a value that is read later shares the memory of what the step at `place` overwrites."""
        written = _memory_of(values[self._steps[place].sources[0]])
        later = (value for step, value in zip(self._steps, values, strict=True) if step.read_until > place)
        return any(_memory_of(value) & written for value in later)

    def _run_after(self, changed: set[fx.Node], replaced: Replaced, values: list[Any]) -> None:
        """Runs the changed nodes and what depends on them, into `values`."""
        dirty = [False] * len(self._steps)
        result = self._result if self._remembered is None else self._known_result
        with torch.no_grad():
            for place, step in enumerate(self._steps):
                if step.node in changed or any(dirty[source] for source in step.sources):
                    before = values[place]
                    values[place] = result(step, values, replaced)
                    dirty[place] = values[place] is not before

    def _known_result(self, step: _Step, values: list[Any], replaced: Replaced) -> Any:
        """The same from memory, if it was made from the same by the same before.

        What follows from a value that is in memory goes there too, but for what is replaced and may be another
        thing each time: that must come up twice. So each run adds to memory at most what one replacement changes.
        """
        assert self._remembered is not None, "it is asked only if it is there"
        made_from = (step, replaced.get(step.node, step.function), *[values[at] for at in step.sources])
        step.is_held, result = self._remembered.find(made_from)
        if not step.is_held:
            result = self._result(step, values, replaced)
            if all(self._steps[at].is_held for at in step.sources):
                step.is_held = self._remembered.add(made_from, result, wanted=step.node not in replaced)
        return result

    def _result(self, step: _Step, values: list[Any], replaced: Replaced) -> Any:
        if step.input_place is not None:
            return _copied(self._inputs[step.input_place])
        state = None if self._random is None else self._random.get(step.node)
        if state is not None:
            with torch.random.fork_rng(devices=[]):
                torch.set_rng_state(state)
                return self._called(step, values, replaced)
        return self._called(step, values, replaced)

    def _called(self, step: _Step, values: list[Any], replaced: Replaced) -> Any:
        try:
            return step.call(values, replaced.get(step.node, step.function), copies=self._copies)
        except (RuntimeError, TypeError, IndexError, ValueError) as error:
            raise ValueError(f"node '{step.node.name}' does not run on the inputs given: {error}") from error


@dataclass
class _Step:
    """A node, ready to be called: where its arguments come from, and what is called."""

    node: fx.Node
    function: Callable[..., Any]
    sources: tuple[int, ...]
    plain: bool
    """Its arguments are the sources, in order, and nothing else."""
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    writes: bool
    """The function overwrites its first argument."""
    apart: Callable[..., Any] | None
    """What does the same without overwriting, if there is such a thing."""
    input_place: int | None = None
    last_read: tuple[int, ...] = ()
    """The steps whose values no later one reads."""
    read_until: int = -1
    """The last step that reads the value of this one."""
    is_held: bool = True
    """Its value is in memory, or has been the same in all runs."""

    def call(self, values: list[Any], function: Callable[..., Any], *, copies: bool) -> Any:
        args: tuple[Any, ...] = tuple([values[place] for place in self.sources])
        kwargs: Mapping[str, Any] = {}
        if not self.plain:
            args, kwargs = map_aggregate(
                (self.args, self.kwargs), lambda leaf: values[leaf.number] if isinstance(leaf, _Place) else leaf
            )
        if self.writes and copies:
            if function is self.function and self.apart is not None:
                function = self.apart
            elif not _rounds_first(function):
                args, kwargs = _with_first_copied(args, kwargs)
        return function(*args, **kwargs)


@dataclass(frozen=True)
class _Place:
    """In the arguments of a step: the value of an earlier one."""

    number: int


def _memory_of(value: Any) -> set[int]:
    return {tensor.untyped_storage().data_ptr() for tensor in tensors_in(value)}


def _with_first_copied(
    args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> tuple[tuple[Any, ...], Mapping[str, Any]]:
    if args:
        return (_copied(args[0]), *args[1:]), kwargs
    name = next(iter(kwargs))
    return args, {**kwargs, name: _copied(kwargs[name])}


def _copied(value: Any) -> Any:
    return map_aggregate(value, lambda leaf: leaf.clone() if isinstance(leaf, Tensor) else leaf)


def _steps(graph: MaseGraph) -> list[_Step]:
    places: dict[fx.Node, int] = {}
    readers: dict[int, int] = {}
    steps: list[_Step] = []
    num_inputs = 0
    for place, node in enumerate(graph.fx_graph.nodes):
        step = _step(node, places)
        if node.op == "placeholder":
            step.input_place, num_inputs = num_inputs, num_inputs + 1
        places[node] = place
        if step.writes:  # whoever reads what it overwrites later reads its result, which is the same
            overwritten = step.sources[0]
            places.update({other: place for other, at in places.items() if at == overwritten})
        readers.update(dict.fromkeys(step.sources, place))
        steps.append(step)
    for source, reader in readers.items():
        steps[reader].last_read += (source,)
        steps[source].read_until = reader
    return steps


def _step(node: fx.Node, places: Mapping[fx.Node, int]) -> _Step:
    sources = []

    def place_of(source: fx.Node) -> Any:
        sources.append(places[source])
        return _Place(places[source])

    args, kwargs = fx.map_arg((node.args, node.kwargs), place_of)
    plain = not kwargs and all(isinstance(arg, _Place) for arg in args)
    meta = node.meta["mase"]
    module = meta.module
    first = next(iter((*node.args, *node.kwargs.values())), None)
    # What an unknown layer does with what it is given, an attribute `inplace` does not tell.
    known = node.op.startswith("call_") and (module is None or meta.op is not None)
    writes = known and isinstance(first, fx.Node) and writes_in_place(node, module)
    apart = _out_of_place(module) if writes else None
    return _Step(node, _function(node), tuple(sources), plain, args, kwargs, writes, apart)


def _function(node: fx.Node) -> Callable[..., Any]:
    match node.op:
        case "call_module":
            return cast("Callable[..., Any]", node.meta["mase"].module)
        case "call_method":
            return _Method(str(node.target))
        case "get_attr":
            held = operator.attrgetter(str(node.target))(node.graph.owning_module)
            return lambda: held
        case "output":
            return lambda result: result
        case _:
            return cast("Callable[..., Any]", node.target)


def _out_of_place(module: Any) -> Callable[..., Any] | None:
    """A layer of the op table that works in place, as one that does not."""
    if op_of_module(type(module)) is None or not isinstance(module, nn.Module):
        return None
    other = copy.copy(module)
    other.inplace = False  # type: ignore[assignment]  # of all modules that work in place it is a bool
    return other


def _rounds_first(function: Callable[..., Any]) -> bool:
    """Whether a function works on a rounded copy of its first argument."""
    formats = function.formats if isinstance(function, QuantizedLayer | QuantizedCall) else {}
    return "data_in_0" in formats and not isinstance(formats["data_in_0"], Float)


@dataclass(frozen=True)
class _Method:
    """A method of whatever its first argument is."""

    name: str

    def __call__(self, this: Any, *args: Any, **kwargs: Any) -> Any:
        return getattr(this, self.name)(*args, **kwargs)
