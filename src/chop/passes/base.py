"""What a pass is: a function over a graph whose arguments are read into a frozen dataclass before it runs.

Here are also the arguments that several passes share: none, and those of passes that run a graph on data.
"""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, Literal, Protocol, Self, TypeVar, cast, get_origin, get_type_hints

from torch import Tensor

from chop.config import Options, option
from chop.ir import MaseGraph
from chop.options import read_options
from chop.registry import Registry

Args = TypeVar("Args")
Kind = Literal["analysis", "transform", "interface"]
PassResult = tuple[MaseGraph, dict[str, Any]]
Batches = Iterable[Mapping[str, Any]]


class Pass(Protocol):
    """A registered pass: `(graph, pass_args=None) -> (graph, info)`, and what was declared about it."""

    __name__: str
    kind: Kind
    args_class: type[Any]
    """The dataclass that `pass_args` is read into."""
    compare: bool
    """Whether `ch transform` also runs the pass on the original graph, and shows its numbers before and after."""
    prints: bool
    """Whether the pass shows its results itself, so that `ch transform` does not print its `info`."""
    keeps_weights: bool
    """Whether the pass leaves weights as they are, so that `ch transform` need not copy those of the model."""

    def __call__(self, *args: Any, **kwargs: Any) -> PassResult: ...


@dataclass(frozen=True)
class DictArgs:
    """Any keys: the pass reads them itself."""

    values: Mapping[str, Any]

    @classmethod
    def from_pass_args(cls, pass_args: Any, where: str) -> Self:
        """Read a dict with any keys."""
        if pass_args is not None and not isinstance(pass_args, Mapping):
            raise ValueError(f"{where}: must be a dict of arguments, got {type(pass_args).__name__}")
        return cls({} if pass_args is None else pass_args)


@dataclass(frozen=True)
class NoArgs:
    """No arguments."""


@dataclass(frozen=True, kw_only=True)
class BatchArgs(Options):
    """The batches that a pass runs the graph on."""

    input_generator: Batches | None = option(
        None, help='Batches by argument name, such as `{"x": tensor}`, or an `InputGenerator`.'
    )


@dataclass(frozen=True, kw_only=True)
class DataArgs(BatchArgs):
    """The batches that a pass runs the graph on, and how many of their rows."""

    num_samples: int = option(
        256, least=1, help="The largest number of rows (images, sentences, windows of a text) to run."
    )


@dataclass(frozen=True, kw_only=True)
class SeedArgs(Options):
    """The random numbers of a pass."""

    seed: int = option(0, help="The seed of the random numbers of the pass.")


@dataclass(frozen=True, kw_only=True)
class LabelledDataArgs(Options):
    """The data with labels that a pass measures the accuracy on."""

    labelled_batches: Iterable[tuple[Mapping[str, Any], Tensor]] | None = option(
        None, help="Pairs of a batch and the labels of its rows; None: what needs labels is not measured."
    )


PASSES: Registry[Pass] = Registry("pass")
ANALYSIS_PASSES: Registry[Pass] = Registry("analysis pass")
TRANSFORM_PASSES: Registry[Pass] = Registry("transform pass")
INTERFACE_PASSES: Registry[Pass] = Registry("interface pass")
_KINDS = {"analysis": ANALYSIS_PASSES, "transform": TRANSFORM_PASSES, "interface": INTERFACE_PASSES}


def register_pass(
    name: str,
    kind: Kind,
    *,
    compare: bool = False,
    prints: bool = False,
    two_graphs: bool = False,
    keeps_weights: bool | None = None,
) -> Callable[[Callable[[MaseGraph, Args], PassResult]], Pass]:
    """Register `function(graph, args)` as `name`, so that it can be called with a dict of arguments.

    The dict is read into the dataclass that annotates `args` and is never changed; without an annotation, as in
    `def function(graph, pass_args={})`, the function gets a copy of the dict. A dataclass with a classmethod
    `from_pass_args` reads the dict itself. After a transform the graph is checked, and its code is regenerated if
    nodes have changed.

    `compare` declares that the numbers in `info` are worth comparing: `ch transform` shows them before and after.
    `prints` declares that the pass shows its results itself; otherwise `ch transform` prints `info` as tables.
    A pass over `two_graphs` takes the first one as its argument `original`, and can also be called as
    `run(original, graph, ...)`, followed by its other arguments. In a pipeline, `original` is the graph before the
    transforms. `keeps_weights` declares that the pass never writes to a weight of the graph, as no analysis does.
    """

    def decorate(function: Callable[[MaseGraph, Args], PassResult]) -> Pass:
        graph_class, args_class = _parameter_types(function, name)

        @functools.wraps(function)
        def run(graph: MaseGraph, pass_args: Any = None) -> PassResult:
            _check_graph(graph, graph_class, function.__name__)
            read = read_arguments(registered, pass_args)
            args: Any = dict(read.values) if isinstance(read, DictArgs) else read
            result = function(graph, args)
            graph, info = _check_result(result, function.__name__)
            if kind == "transform":
                graph.fx_graph.lint()
                graph.model.recompile_if_changed()
            return graph, info

        registered = cast(Pass, _accepting_two_graphs(run, args_class) if two_graphs else run)
        registered.kind, registered.args_class = kind, args_class
        registered.compare, registered.prints = compare, prints
        registered.keeps_weights = kind == "analysis" if keeps_weights is None else keeps_weights
        PASSES.add(name, registered)
        _KINDS[kind].add(name, registered)
        return registered

    return decorate


def read_arguments(run_pass: Pass, pass_args: Any) -> Any:
    """Return the arguments of a pass as it reads them, also to find mistakes before anything runs."""
    args_class, where = run_pass.args_class, run_pass.__name__
    if isinstance(pass_args, args_class):
        return pass_args
    if hasattr(args_class, "from_pass_args"):
        return args_class.from_pass_args(pass_args, where)
    return read_options(args_class, pass_args, where)


def _parameter_types(function: Callable[..., object], name: str) -> tuple[Any, Any]:
    """Return the types of a pass's two parameters: a graph, and the dataclass of its arguments."""
    parameters = list(inspect.signature(function).parameters)
    if len(parameters) == 2:
        hints = get_type_hints(function)
        graph_class, args_class = hints.get(parameters[0], MaseGraph), hints.get(parameters[1], dict)
        if is_dataclass(args_class):
            return graph_class, args_class
        if (get_origin(args_class) or args_class) in (dict, Mapping, Any):
            return graph_class, DictArgs
    raise ValueError(
        f"pass '{name}': a pass takes a graph and its arguments, as a dict or as a frozen dataclass that annotates "
        f"them: def {function.__name__}(graph: MaseGraph, args: Args) -> PassResult; "
        f"this one takes ({', '.join(parameters)})"
    )


def _check_result(result: object, where: str) -> PassResult:
    match result:
        case (MaseGraph() as graph, dict() as info):
            return graph, info
        case tuple():
            returned = f"({', '.join(type(part).__name__ for part in result)})"
        case _:
            returned = type(result).__name__
    raise ValueError(f"{where}: a pass returns (graph, info), where info is a dict, got {returned}")


def _check_graph(graph: object, graph_class: Any, where: str) -> None:
    if not isinstance(graph, graph_class):
        if isinstance(graph, str | os.PathLike):
            first = "None" if isinstance(None, graph_class) else "graph"
            raise ValueError(
                f"{where}: the first argument is a MaseGraph, and the path the second one: "
                f"{where}({first}, '{os.fspath(graph)}')"
            )
        kind = type(graph).__name__
        raise ValueError(f"{where}: needs a MaseGraph, got {kind}; create one with MaseGraph(model)")


def _accepting_two_graphs(run: Callable[..., PassResult], args_class: Any) -> Callable[..., PassResult]:
    """Return `run` such that it also accepts two graphs and the other arguments, in the order of the fields."""
    names = [field.name for field in fields(args_class) if field.name != "original"]

    @functools.wraps(run)
    def run_either(*args: Any, **kwargs: Any) -> PassResult:
        one_graph = len(args) < 2 or args[1] is None or isinstance(args[1], (Mapping, args_class))
        if one_graph and set(kwargs) <= {"graph", "pass_args"}:
            return run(*args, **kwargs)
        if len(args) > len(names) + 2:
            raise TypeError(f"{run.__name__}: takes at most {len(names) + 2} arguments, got {len(args)}")
        given = dict(zip(("original", "graph", *names), args, strict=False)) | kwargs
        graph = given.pop("graph", None)
        for each in (given.get("original", graph), graph):
            _check_graph(each, MaseGraph, run.__name__)
        return run(graph, given)

    return run_either
