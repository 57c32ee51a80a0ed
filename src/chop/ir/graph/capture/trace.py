"""Tracing a model into an fx graph, with an error message that says where and why it failed."""

from __future__ import annotations

import inspect
import keyword
import operator
import unicodedata
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import is_dataclass
from functools import partial
from typing import Any
from unittest import mock

import torch
from torch import fx, nn

from chop.ir.graph.capture.both_modes import Traced, gradients_mode_reads, mode_reads, trace_both_modes
from chop.ir.graph.capture.buffer_updates import assign_at_the_end, check_aliases, writes_to_attributes
from chop.ir.graph.capture.carried_state import check_attributes, check_gradients_mode, no_random_numbers
from chop.ir.graph.capture.errors import TraceError, source_line
from chop.ir.graph.model_state import Attribute, ModelState, join, unchanged
from chop.ir.graph.training_mode import CONSTANT, comparable
from chop.nn.quantized import QuantizedLayer
from chop.ops import op_of_module
from chop.registry import closest


class InPlaceProxy(fx.Proxy):
    """A proxy that records `x += y` as it is; torch.fx itself records `x + y`, which does not change `x`."""

    def __iadd__(self, other: Any) -> Any:
        return self._in_place(operator.iadd, other, "add")

    def __isub__(self, other: Any) -> Any:
        return self._in_place(operator.isub, other, "sub")

    def __imul__(self, other: Any) -> Any:
        return self._in_place(operator.imul, other, "mul")

    def __itruediv__(self, other: Any) -> Any:
        return self._in_place(operator.itruediv, other, "truediv")

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "data":
            raise TypeError("a graph cannot give a tensor other data")
        super().__setattr__(name, value)

    def _in_place(self, function: Callable[..., Any], other: Any, name: str) -> Any:
        return self.tracer.create_proxy("call_function", function, (self, other), {}, name)


class Tracer(fx.Tracer):
    """A tracer with fixed arguments, which does not trace into layers of the op table or `leaf_modules`."""

    def __init__(
        self, fixed: Mapping[str, Any], leaf_modules: tuple[type[nn.Module], ...] = (), buffers: bool = False
    ) -> None:
        """Make a tracer; with `buffers`, the values of buffers are not used: they may change between two calls."""
        super().__init__()
        self.fixed = fixed
        self.leaf_modules = leaf_modules
        self.proxy_buffer_attributes = buffers
        self.path: list[str] = []
        """The modules whose forward is being traced, outermost first."""
        self.read: set[int] = set()
        """The `id` of each tensor that is read from a module."""
        self.updated: set[int] = set()
        """The `id` of each buffer of a layer that is called."""

    def proxy(self, node: fx.Node) -> fx.Proxy:
        return InPlaceProxy(node, self)

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        is_leaf = isinstance(m, (QuantizedLayer, *self.leaf_modules)) or op_of_module(type(m)) is not None
        return is_leaf or super().is_leaf_module(m, module_qualified_name)

    def call_module(self, m: nn.Module, forward: Any, args: Any, kwargs: Any) -> Any:
        self.path.append(self.path_of_module(m))
        if self.is_leaf_module(m, self.path[-1]):
            self.updated.update(map(id, m.buffers()))
        result = super().call_module(m, forward, args, kwargs)
        self.path.pop()
        return result

    def getattr(self, attr: str, attr_val: Any, parameter_proxy_cache: dict[str, fx.Proxy]) -> Any:
        self.read.add(id(attr_val))
        return super().getattr(attr, attr_val, parameter_proxy_cache)

    def create_arg(self, a: Any) -> Any:
        """Return a value as an argument of a node; torch.fx turns dicts that are dataclasses into plain dicts."""
        if isinstance(a, dict) and is_dataclass(a):
            parts = {name: self.create_arg(part) for name, part in a.items()}
            return self.create_node("call_function", type(a), (), parts)
        return super().create_arg(a)

    def create_args_for_root(
        self, root_fn: Callable[..., Any], is_module: bool, concrete_args: Any = None
    ) -> tuple[Any, list[Any]]:
        """Return the arguments to trace with. With `concrete_args`, fx would leave inputs and assertions."""
        try:
            function, args = super().create_args_for_root(root_fn, is_module, concrete_args)
        except ValueError as error:  # it changes the wrapper as if it had the arguments of what it wraps
            raise TypeError(
                "torch.fx does not support a decorated forward with *args, **kwargs or keyword-only arguments"
            ) from error
        for i, argument in enumerate(args):
            if isinstance(argument, fx.Proxy) and argument.node.target in self.fixed:
                self.graph.erase_node(argument.node)
                args[i] = self.fixed[str(argument.node.target)]
        return function, args


def trace(
    model: nn.Module,
    cf_args: Mapping[str, Any] | None = None,
    leaf_modules: tuple[type[nn.Module], ...] = (),
) -> fx.Graph:
    """Return the graph of the model's forward, with the arguments in `cf_args` fixed to their values."""
    fixed = cf_args or {}
    known = list(inspect.signature(model.forward).parameters)
    for name in fixed:
        if name not in known:
            raise ValueError(f"cf_args: {type(model).__name__}.forward has no '{name}'; {closest(name, known)}")
    return trace_both_modes(model, partial(_traced, model, fixed, leaf_modules))


def _traced(model: nn.Module, fixed: Mapping[str, Any], leaf_modules: tuple[type[nn.Module], ...]) -> Traced:
    """Return the graph of the forward in the present modes."""
    tracer = partial(Tracer, fixed, leaf_modules)
    with unchanged(model) as before, gradients_mode_reads() as lines:
        first = tracer()
        traced = _run(model, first)
        changed = before.changes()
        changes_buffers = (
            bool(changed & before.buffers)
            or not first.read.isdisjoint(first.updated)
            or writes_to_attributes(traced.graph, model)
        )
        if changes_buffers:
            before.restore()
            check_aliases(model)
            traced = _run(model, tracer(buffers=True))
            changed = before.changes() - _assign_buffers(traced.graph, model, before)
        constants = {("", str(node.target)) for node in traced.graph.nodes if CONSTANT in node.meta} - before.names

    def run_again() -> object:
        return comparable(_run(model, tracer(buffers=changes_buffers)).graph)

    check_attributes(model, changed - constants, run_again)
    check_gradients_mode(model, lines, run_again)
    return traced


@contextmanager
def _no_autocast() -> Iterator[None]:
    """Refuse `torch.autocast` in a forward: torch.fx records the functions in it, but not that it changes types."""
    enter: Any = torch.autocast.__enter__

    def refuse(context: torch.autocast) -> Any:
        before = torch.is_autocast_enabled("cpu"), torch.is_autocast_enabled("cuda")
        result = enter(context)
        if (torch.is_autocast_enabled("cpu"), torch.is_autocast_enabled("cuda")) != before:
            context.__exit__(None, None, None)
            raise TypeError("torch.fx does not keep torch.autocast")
        return result

    with mock.patch.object(torch.autocast, "__enter__", refuse):
        yield


def _run(model: nn.Module, tracer: Tracer) -> Traced:
    """Trace a model; the constants that torch.fx adds to it are also in the `meta` of the nodes that read them."""
    with (
        _no_autocast(),
        mode_reads(lambda: len(tracer.graph.nodes)) as reads,
        no_random_numbers(model, lambda: tracer.trace(model), of_torch=True),
    ):
        try:
            graph = tracer.trace(model)
        except Exception as error:
            raise TraceError(_explain(error, model, tracer.path)) from error
    for node in graph.nodes:
        if node.op == "get_attr" and node.target in vars(model):
            node.meta[CONSTANT] = vars(model)[node.target]
    return Traced(graph, reads)


def _assign_buffers(graph: fx.Graph, model: nn.Module, before: ModelState) -> set[Attribute]:
    """Let the graph assign the buffers that the forward assigned; return these."""
    assigned: dict[Attribute, fx.Node] = {}
    for path, name in sorted(before.changes() & before.buffers):
        value = model.get_submodule(path)._buffers[name]
        if isinstance(value, fx.Proxy):
            assigned[path, name] = value.node
    assign_at_the_end(graph, {join(*attribute): node for attribute, node in assigned.items()})
    return set(assigned)


def check_names(graph: fx.Graph, model: str) -> None:
    """Raise an error for names that cannot be in the Python code which torch.fx generates."""
    for node in graph.nodes:
        if node.op == "placeholder" and node.target == "torch":
            raise ValueError(f"{model}.forward has an argument 'torch', which hides the package; rename it")
        if node.op in ("call_module", "get_attr"):
            for name in str(node.target).split("."):
                if problem := _problem_of(name):
                    raise ValueError(f"{model}: {str(node.target)!r} contains {problem}; rename it")


def _problem_of(name: str) -> str:
    """Return why a name cannot be in generated code, or ''; torch.fx quotes names that are not identifiers."""
    if keyword.iskeyword(name):
        return f"the Python keyword '{name}'"
    if not name.isprintable() or any(character in name for character in '"\\'):
        return "a quote, a backslash or a control character"
    if name.isidentifier() and unicodedata.normalize("NFKC", name) != name:
        return f"letters that Python replaces by others ('{unicodedata.normalize('NFKC', name)}')"
    return ""


def _explain(error: Exception, model: nn.Module, path: list[str]) -> str:
    where = f"module '{path[-1]}' ({type(model.get_submodule(path[-1])).__name__})" if path else "the model"
    return f"torch.fx cannot trace {type(model).__name__}: it stops in {where}{source_line(error)}: {error}"
