"""What a pass is: a function over a graph, its arguments read into a frozen dataclass before it runs."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, Literal, TypeVar, get_type_hints

from chop.ir import MaseGraph
from chop.options import read_options
from chop.registry import Registry

Args = TypeVar("Args")
Kind = Literal["analysis", "transform", "interface"]
PassResult = tuple[MaseGraph, dict[str, Any]]
Pass = Callable[..., PassResult]
"""`(graph, pass_args=None) -> (graph, info)`"""

PASSES: Registry[Pass] = Registry("pass")
ANALYSIS_PASSES: Registry[Pass] = Registry("analysis pass")
TRANSFORM_PASSES: Registry[Pass] = Registry("transform pass")
INTERFACE_PASSES: Registry[Pass] = Registry("interface pass")
_KINDS = {"analysis": ANALYSIS_PASSES, "transform": TRANSFORM_PASSES, "interface": INTERFACE_PASSES}


def register_pass(name: str, kind: Kind) -> Callable[[Callable[[Any, Args], PassResult]], Pass]:
    """Files `function(graph, args)` under `name` and lets it be called with a dict of arguments.

    The dict is read into the dataclass that annotates `args`, and never changed; a dataclass with a
    `from_pass_args` reads it by itself. After a transform the graph is checked and its code made anew.
    """

    def decorate(function: Callable[[Any, Args], PassResult]) -> Pass:
        hints = get_type_hints(function)
        args_class, graph_class = hints["args"], hints.get("graph", MaseGraph)

        @functools.wraps(function)
        def run(graph: MaseGraph, pass_args: Any = None) -> PassResult:
            if not isinstance(graph, graph_class):
                raise ValueError(
                    f"{function.__name__}: works on a MaseGraph, got a {type(graph).__name__}; "
                    "make one with MaseGraph(model)"
                )
            graph, info = function(graph, _read(args_class, pass_args, function.__name__))
            if kind == "transform":
                graph.fx_graph.lint()
                graph.model.recompile()
            return graph, info

        PASSES.add(name, run)
        _KINDS[kind].add(name, run)
        return run

    return decorate


def arguments_of(run_pass: Pass) -> Any:
    """The dataclass that a pass reads its arguments into."""
    return get_type_hints(inspect.unwrap(run_pass))["args"]


def read_arguments(run_pass: Pass, pass_args: Any) -> Any:
    """The arguments of a pass as it would read them: mistakes are told before anything runs."""
    return _read(arguments_of(run_pass), pass_args, run_pass.__name__)


def _read(args_class: Any, pass_args: Any, where: str) -> Any:
    if isinstance(pass_args, args_class):
        return pass_args
    if hasattr(args_class, "from_pass_args"):
        return args_class.from_pass_args(pass_args, where)
    return read_options(args_class, pass_args, where)
