"""The nodes of a graph as steps: functions that are called with the values of earlier steps."""

from __future__ import annotations

import copy
import functools
import operator
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from torch import Tensor, fx, nn
from torch.fx.node import map_aggregate

from chop.formats.float import Float
from chop.ir.graph.in_place import has_new_result, overwritten_input, writes_in_place
from chop.ir.graph.mase_graph import MaseGraph
from chop.nn.quantized import QuantizedCall, QuantizedLayer
from chop.ops import op_of_module


@dataclass(frozen=True)
class _ValueOf:
    """In the arguments of a step: the value of an earlier step."""

    index: int


@dataclass
class Step:
    """A node, ready to be called: its function, and the steps whose values are its arguments.

    It may compute nodes that follow as well; the value of the step is then that of the last of them.
    """

    index: int
    """The position of the step. Values are kept in a list with one entry per step."""
    node: fx.Node
    function: Callable[..., Any]
    sources: tuple[int, ...]
    """The steps whose values it reads."""
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    overwrites: bool
    """The function writes into its first argument."""
    out_of_place: Callable[..., Any] | None
    """What computes the same without overwriting the argument, if known."""
    last_reads: tuple[int, ...] = ()
    """The steps whose values are not read after this one."""
    readers: tuple[int, ...] = ()
    """The steps that read its value, in order."""
    followers: tuple[fx.Node, ...] = ()
    """Nodes that read nothing but the result of the node before; they may overwrite it, since nothing else does."""

    @property
    def last_reader(self) -> int:
        """The last step that reads its value; -1 if none does."""
        return self.readers[-1] if self.readers else -1

    def __post_init__(self) -> None:
        arguments = (*self.args, *self.kwargs.values())
        self._sources_only = not self.kwargs and all(isinstance(argument, _ValueOf) for argument in arguments)
        self._followers: list[Callable[..., Any]] = []

    def add_follower(self, node: fx.Node) -> None:
        """Compute one more node together with this step."""
        self.followers += (node,)
        self._followers.append(_function(node))

    def call(self, values: Sequence[Any], function: Callable[..., Any], *, in_place: bool) -> Any:
        """Call `function`, the step's own or a replacement, with the values of earlier steps.

        Without `in_place`, a function that overwrites its first argument works on a copy.
        """
        args: tuple[Any, ...] = tuple([values[source] for source in self.sources])
        kwargs: Mapping[str, Any] = {}
        if not self._sources_only:
            args, kwargs = map_aggregate(
                (self.args, self.kwargs), lambda leaf: values[leaf.index] if isinstance(leaf, _ValueOf) else leaf
            )
        if self.overwrites and not in_place:
            if function is self.function and self.out_of_place is not None:
                function = self.out_of_place
            elif not _rounds_first_argument(function):
                args, kwargs = _with_first_copied(args, kwargs)
        return self._with_followers(_called(self.node, function, args, kwargs))

    def rounded_input(self, layer: QuantizedLayer, value: Tensor) -> Any:
        """Return the input, rounded for a layer that replaces the function."""
        return _called(self.node, layer.rounded, ("data_in_0", value), {})

    def call_rounded(self, layer: QuantizedLayer, rounded: Any) -> Any:
        """Call a layer that replaces the function with its rounded input."""
        return self._with_followers(_called(self.node, layer.forward_rounded, (rounded,), {}))

    def _with_followers(self, result: Any) -> Any:
        for node, function in zip(self.followers, self._followers, strict=True):
            result = _called(node, function, (result,), {})
        return result


def steps_of(graph: MaseGraph, inputs: Sequence[Any], replaceable: Collection[fx.Node] | None = None) -> list[Step]:
    """Return the steps of a graph in its order; `inputs` are the values of the placeholders in their order.

    Every node is a step. If `replaceable` is given, only these nodes are sure to be steps: in the chain
    `linear -> batch norm -> relu`, the last two are computed with the linear layer, unless they are replaceable.
    """
    remaining = iter(inputs)
    steps: list[Step] = []
    sources: dict[fx.Node, int] = {}
    for node in graph.fx_graph.nodes:
        before = node.args[0] if len(node.args) == 1 and not node.kwargs else None
        if (
            replaceable is not None
            and node not in replaceable
            and isinstance(before, fx.Node)
            and len(before.users) == 1  # no other node reads the result, which has a memory of its own
            and has_new_result(before)
            and has_new_result(node)
        ):
            sources[node] = sources[before]
            steps[sources[node]].add_follower(node)
            continue
        index = len(steps)
        if node.op == "placeholder":
            value = functools.partial(copied, next(remaining))
            step = Step(index, node, value, (), (), {}, overwrites=False, out_of_place=None)
        else:
            step = _step(index, node, sources)
        sources[node] = index
        if step.overwrites:  # later readers of the overwritten value read the result, which is the same
            overwritten = step.sources[0]
            sources.update({other: index for other, source in sources.items() if source == overwritten})
        steps.append(step)
        for source in set(step.sources):
            steps[source].readers += (index,)
    for step in steps:
        if step.readers:
            steps[step.last_reader].last_reads += (step.index,)
    return steps


def _called(node: fx.Node, function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    try:
        return function(*args, **kwargs)
    except (RuntimeError, TypeError, IndexError, ValueError) as error:
        raise ValueError(f"node '{node.name}' does not run on the given inputs: {error}") from error


def copied(value: Any) -> Any:
    """Return the same nested value with a copy of every tensor in it."""
    return map_aggregate(value, lambda leaf: leaf.clone() if isinstance(leaf, Tensor) else leaf)


def _step(index: int, node: fx.Node, sources: Mapping[fx.Node, int]) -> Step:
    read: list[int] = []

    def value_of(argument: fx.Node) -> Any:
        read.append(sources[argument])
        return _ValueOf(sources[argument])

    args, kwargs = fx.map_arg((node.args, node.kwargs), value_of)
    overwrites = _overwrites_first_argument(node)
    out_of_place = _out_of_place(node.meta["mase"].module) if overwrites else None
    return Step(index, node, _function(node), tuple(read), args, kwargs, overwrites, out_of_place)


def _function(node: fx.Node) -> Callable[..., Any]:
    match node.op:
        case "call_module":
            return cast("Callable[..., Any]", node.meta["mase"].module)
        case "call_method":
            name = str(node.target)
            return lambda owner, *args, **kwargs: getattr(owner, name)(*args, **kwargs)
        case "get_attr":
            attribute = operator.attrgetter(str(node.target))(node.graph.owning_module)
            return lambda: attribute
        case "output":
            return lambda result: result
        case _:
            return cast("Callable[..., Any]", node.target)


def _overwrites_first_argument(node: fx.Node) -> bool:
    meta = node.meta["mase"]
    if not node.op.startswith("call_"):
        return False
    if meta.module is not None and meta.op is None:
        return False  # the attribute `inplace` of an unknown layer need not refer to its input
    return overwritten_input(node) is not None and writes_in_place(node, meta.module)


def _out_of_place(layer: Any) -> Callable[..., Any] | None:
    """Return a copy of an in-place layer of the op table that does not work in place."""
    if not isinstance(layer, nn.Module) or op_of_module(type(layer)) is None:
        return None
    other = copy.copy(layer)
    other.inplace = False  # type: ignore[assignment]  # `inplace` is a bool in every layer that has it
    return other


def _rounds_first_argument(function: Callable[..., Any]) -> bool:
    """Whether a function works on a rounded copy of its first argument, and leaves the argument as it is."""
    if not isinstance(function, QuantizedLayer | QuantizedCall) or function.writes_back:
        return False
    return "data_in_0" in function.formats and not isinstance(function.formats["data_in_0"], Float)


def _with_first_copied(
    args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> tuple[tuple[Any, ...], Mapping[str, Any]]:
    if args:
        return (copied(args[0]), *args[1:]), kwargs
    name = next(iter(kwargs))
    return args, {**kwargs, name: copied(kwargs[name])}
