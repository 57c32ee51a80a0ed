"""Running a graph node by node, without changing it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.utils import _pytree as pytree

from chop.ir.graph.device import device_of
from chop.ir.graph.input_sizes import check_sizes, explain_sizes, input_sizes
from chop.ir.graph.mase_graph import MaseGraph
from chop.ir.graph.meta import NodeMeta
from chop.ir.graph.model_state import is_known, unchanged
from chop.nn.quantized import QuantizedCall, QuantizedLayer, plain_layer
from chop.registry import closest


class NodeInterpreter(fx.Interpreter):
    """An fx interpreter whose subclasses observe the inputs (`before`) and the result (`after`) of each node."""

    def __init__(self, model: fx.GraphModule) -> None:
        super().__init__(model)
        self.extra_traceback = False  # our errors name the node themselves

    def run(
        self, *args: Any, initial_env: dict[fx.Node, Any] | None = None, enable_io_processing: bool = True
    ) -> Any:
        given = self.graph.process_inputs(*args) if enable_io_processing else args
        result = None
        for node in self.steps(*given, initial_env=initial_env):
            result = self.env[node]
        return self.graph.process_outputs(result) if enable_io_processing else result

    def steps(self, *args: Any, initial_env: dict[fx.Node, Any] | None = None) -> Iterator[fx.Node]:
        """Run one node after the other, and yield each; fx itself would also create a progress bar, with a lock."""
        self.env = {} if initial_env is None else initial_env
        self.args_iter = iter(args)
        for node in self.graph.nodes:
            if node not in self.env:
                self.env[node] = self._run_explained(node, args)
            for unused in self.user_to_last_uses.get(node, ()):
                del self.env[unused]
            yield node

    def _run_explained(self, node: fx.Node, args: Sequence[Any]) -> Any:
        """Run a node; if an error may come from the sizes of the inputs, the message says so."""
        try:
            return self.run_node(node)
        except ValueError as error:
            inputs = input_sizes(self.graph)
            problem = explain_sizes(inputs, {name: value for (name, _), value in zip(inputs, args, strict=False)})
            if not problem:
                raise
            raise ValueError(f"{error}; {problem}") from error

    def before(self, node: fx.Node, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Called before a node runs."""

    def after(self, node: fx.Node, result: Any) -> None:
        """Called after a node has run."""

    def run_node(self, n: fx.Node) -> Any:
        args, kwargs = self.fetch_args_kwargs_from_env(n)
        self.before(n, args, kwargs)
        try:
            result = getattr(self, n.op)(n.target, args, kwargs)
        except (RuntimeError, TypeError, IndexError, ValueError) as error:
            raise ValueError(f"node '{n.name}' does not run on the given inputs: {error}") from error
        self.after(n, result)
        return result

    def placeholder(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return next(self.args_iter)  # fx itself would take all that remain as a list for `*args` and `**kwargs`


class FloatInterpreter(NodeInterpreter):
    """An interpreter that computes without rounding, with the parameters that the layers had when it was made."""

    def __init__(self, model: fx.GraphModule) -> None:
        super().__init__(model)
        self.plain: dict[str, nn.Module] = {
            path: plain_layer(layer) for path, layer in model.named_modules() if isinstance(layer, QuantizedLayer)
        }

    def call_module(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        layer = self.plain.get(target)
        return super().call_module(target, args, kwargs) if layer is None else layer(*args, **kwargs)

    def call_function(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        function = target.function if isinstance(target, QuantizedCall) else target
        return super().call_function(function, args, kwargs)


def inputs_of(graph: MaseGraph) -> list[fx.Node]:
    """Return the placeholders of a graph."""
    return [node for node in graph.fx_graph.nodes if node.op == "placeholder"]


def bind_inputs(graph: MaseGraph, inputs: Mapping[str, Any]) -> list[Any]:
    """Return the values of the graph's inputs in their order, with defaults for those that are not given.

    Tensors are copied to the device of the model, so that it may overwrite them. The value of `*args` is the list
    `inputs["args"]`; names that match no other input go into `**kwargs`.
    """
    if not isinstance(inputs, Mapping):
        raise ValueError(f"inputs must be a dict such as {{'x': tensor}}, got {type(inputs).__name__}")
    targets = [str(node.target) for node in inputs_of(graph)]
    names = [target.lstrip("*") for target in targets if not target.startswith("**")]
    others = {name: value for name, value in inputs.items() if name not in names}
    if others and len(names) == len(targets):
        name = next(iter(others))
        raise ValueError(f"the model has no input '{name}'; {closest(name, names)}")
    values = [others if str(n.target).startswith("**") else _value(n, inputs) for n in inputs_of(graph)]
    check_sizes(input_sizes(graph.fx_graph), inputs)

    def on_device(tensor: Tensor) -> Tensor:
        return tensor.detach().to(device_of(graph.model, default=tensor.device), copy=True)

    copied: list[Any] = pytree.tree_map_only(Tensor, on_device, values)
    return copied


def run_model(graph: MaseGraph, inputs: Mapping[str, Any]) -> Any:
    """Return the output of the graph's model for a batch by argument name, which it may overwrite a copy of."""
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    for node, value in zip(inputs_of(graph), bind_inputs(graph, inputs), strict=True):
        target = str(node.target)
        if target.startswith("**"):
            kwargs |= value
        else:
            args += value if target.startswith("*") else [value]
    return graph.model(*args, **kwargs)


def _value(node: fx.Node, inputs: Mapping[str, Any]) -> Any:
    """Return the value of one input, or its default."""
    name = str(node.target).lstrip("*")
    is_list = name != node.target
    if name not in inputs:
        if not node.args and not is_list:
            takes = (str(other.target) for other in node.graph.nodes if other.op == "placeholder")
            raise ValueError(f"input '{name}' is missing; the model takes {', '.join(takes)}")
        return node.args[0] if node.args else ()
    if is_list and not isinstance(inputs[name], list | tuple):
        raise ValueError(f"input '{node.target}' must be a list, got {type(inputs[name]).__name__}")
    return inputs[name]


def annotated_inputs(graph: MaseGraph) -> dict[str, Any]:
    """Return the batch that the graph was annotated with, by argument name."""
    given = {str(meta.node.target): meta.given for meta in _metas_of_inputs(graph)}
    if not all(given.values()):
        raise ValueError("the graph does not keep the values of its inputs; pass a batch as 'dummy_in'")
    inputs: dict[str, Any] = {}
    for target, (value,) in given.items():
        inputs |= value if target.startswith("**") else {target.lstrip("*"): value}
    return inputs


def example_inputs(graph: MaseGraph, argument: str) -> dict[str, Any]:
    """Return the batch that the graph was annotated with, or one of the same shapes if its values were not kept.

    `argument` is what the caller can be given instead; an error message asks for it.
    """
    metas = _metas_of_inputs(graph)
    if not all(meta.annotated for meta in metas):
        raise ValueError(f"the graph is not annotated with a batch; give rows as '{argument}'")
    if all(meta.given for meta in metas):
        return annotated_inputs(graph)
    generator = torch.Generator().manual_seed(0)
    inputs = {}
    for meta in metas:
        result = meta.results.get("data_out_0")
        if result is None or len(meta.results) != 1:
            raise ValueError(f"the graph does not keep the value of '{meta.node.name}'; give rows as '{argument}'")
        drawn = torch.randn(result.shape, generator=generator) if result.dtype.is_floating_point else None
        inputs[str(meta.node.target)] = (torch.zeros(result.shape) if drawn is None else drawn).to(result.dtype)
    return inputs


def _metas_of_inputs(graph: MaseGraph) -> list[NodeMeta]:
    return [node.meta.get("mase") or NodeMeta(node) for node in inputs_of(graph)]


@contextmanager
def evaluation_mode(model: nn.Module) -> Iterator[None]:
    """Set evaluation mode without gradients; at the end, also after an error, restore the mode of each layer."""
    training = model.training
    modes = [(module, module.training) for module in model.modules()]
    if any(mode for _, mode in modes):
        model.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        if model.training != training:
            model.train(training)
        for module, mode in modes:
            if module.training != mode:  # setting an attribute of a module takes long
                module.training = mode


@contextmanager
def undisturbed(model: nn.Module) -> Iterator[None]:
    """Set evaluation mode without gradients; at the end restore mode, parameters, buffers and random state.

    Modules that the graph calls and that are not in the op table are restored with all their attributes.
    """
    own = None  # all modules
    if isinstance(model, fx.GraphModule):
        called = {model.get_submodule(str(node.target)) for node in model.graph.nodes if node.op == "call_module"}
        own = {part for module in called if not is_known(module) for part in module.modules()}
    with unchanged(model, own), evaluation_mode(model), torch.random.fork_rng(devices=[]):
        yield


def named_inputs(meta: NodeMeta, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Tensor]:
    """Return the tensors that go into a node: by operand name for an op, as `data_in_{i}` for any other node."""
    if meta.op is not None:
        return {name: value for name, _, value in meta.op.bound(args, kwargs) if isinstance(value, Tensor)}
    found = tensors_in((args, kwargs)) if meta.node.op != "placeholder" else []
    return {f"data_in_{i}": tensor for i, tensor in enumerate(found)}


def tensors_in(value: Any) -> list[Tensor]:
    """Return all tensors in nested tuples, lists and dicts, in order."""
    if isinstance(value, Tensor):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    return [tensor for item in value for tensor in tensors_in(item)] if isinstance(value, tuple | list) else []
