"""Tracing a model into an fx graph, with an error message that says where and why it failed."""

from __future__ import annotations

import inspect
import keyword
import logging
import operator
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import is_dataclass
from typing import Any

from torch import fx, nn

from chop.ir.graph.capture.errors import TraceError, source_line
from chop.ir.graph.training_mode import bind_to_mode, may_follow_mode
from chop.nn.quantized import QuantizedLayer
from chop.ops import op_of_module
from chop.registry import closest

logger = logging.getLogger(__name__)


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

    def _in_place(self, function: Callable[..., Any], other: Any, name: str) -> Any:
        return self.tracer.create_proxy("call_function", function, (self, other), {}, name)


class Tracer(fx.Tracer):
    """A tracer with fixed arguments, which does not trace into layers of the op table or `leaf_modules`."""

    def __init__(self, fixed: Mapping[str, Any], leaf_modules: tuple[type[nn.Module], ...] = ()) -> None:
        super().__init__()
        self.fixed = fixed
        self.leaf_modules = leaf_modules
        self.path: list[str] = []
        """The modules whose forward is being traced, outermost first."""

    def proxy(self, node: fx.Node) -> fx.Proxy:
        return InPlaceProxy(node, self)

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        is_leaf = isinstance(m, (QuantizedLayer, *self.leaf_modules)) or op_of_module(type(m)) is not None
        return is_leaf or super().is_leaf_module(m, module_qualified_name)

    def call_module(self, m: nn.Module, forward: Any, args: Any, kwargs: Any) -> Any:
        self.path.append(self.path_of_module(m))
        result = super().call_module(m, forward, args, kwargs)
        self.path.pop()
        return result

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
        function, args = super().create_args_for_root(root_fn, is_module, concrete_args)
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
    graph = _trace(model, Tracer(fixed, leaf_modules))
    if may_follow_mode(graph) and not _follow_mode(graph, model, fixed, leaf_modules):
        logger.warning(
            "%s behaves differently in training and in evaluation; its graph is fixed to the current mode. Set the "
            "mode before MaseGraph(model), or use layers that follow the mode, such as nn.Dropout",
            type(model).__name__,
        )
    return graph


def _trace(model: nn.Module, tracer: Tracer) -> fx.Graph:
    try:
        return tracer.trace(model)
    except Exception as error:
        raise TraceError(_explain(error, model, tracer.path)) from error


def check_names(graph: fx.Graph, model: str) -> None:
    """Raise an error for names that cannot be in the Python code which torch.fx generates."""
    for node in graph.nodes:
        if node.op == "placeholder" and node.target == "torch":
            raise ValueError(f"{model}.forward has an argument 'torch', which hides the package; rename it")
        if node.op in ("call_module", "get_attr"):
            for name in filter(keyword.iskeyword, str(node.target).split(".")):
                raise ValueError(f"{model}: '{node.target}' contains the Python keyword '{name}'; rename it")


def _follow_mode(
    graph: fx.Graph, model: nn.Module, fixed: Mapping[str, Any], leaf_modules: tuple[type[nn.Module], ...]
) -> bool:
    """Let constants of the graph follow the mode as in the model; return False if the modes differ in more."""
    graphs = []
    for training in (False, True):
        if all(module.training is training for module in model.modules()):
            graphs.append(graph)
            continue
        with _in_mode(model, training):
            try:
                graphs.append(_trace(model, Tracer(fixed, leaf_modules)))
            except TraceError:
                return False
    return bind_to_mode(graph, *graphs)


@contextmanager
def _in_mode(model: nn.Module, training: bool) -> Iterator[None]:
    """Set one mode for all modules for a while."""
    modes = [(module, module.training) for module in model.modules()]
    for module, _ in modes:
        module.training = training
    try:
        with additions_removed(model):
            yield
    finally:
        for module, before in modes:
            module.training = before


@contextmanager
def additions_removed(model: nn.Module) -> Iterator[None]:
    """Remove at the end what was added to a model and its parts: constants like `_tensor_constant0`, and hooks.

    Models of transformers add hooks to themselves in their first run, and an attribute that says so.
    """
    before = [(vars(part), set(vars(part)), _hooks(part)) for part in model.modules()]
    try:
        yield
    finally:
        for state, attributes, hooks in before:
            for name in state.keys() - attributes:
                del state[name]
            for name, numbers in hooks.items():
                for number in state[name].keys() - numbers:
                    del state[name][number]


def _hooks(module: nn.Module) -> dict[str, set[int]]:
    """Return the numbers of a module's hooks for the forward, by the attribute that holds them."""
    return {name: set(held) for name, held in vars(module).items() if name.startswith("_forward_")}


def _explain(error: Exception, model: nn.Module, path: list[str]) -> str:
    where = f"module '{path[-1]}' ({type(model.get_submodule(path[-1])).__name__})" if path else "the model"
    return f"torch.fx cannot trace {type(model).__name__}: it stops in {where}{source_line(error)}: {error}"
