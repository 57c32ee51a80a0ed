"""Running a graph node by node, and leaving it as it was."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch.utils import _pytree as pytree

from chop.ir.graph.mase_graph import MaseGraph
from chop.ir.graph.meta import NodeMeta
from chop.nn.quantized import QuantizedLayer
from chop.ops import op_of_module
from chop.registry import closest


class Runner(fx.Interpreter):
    """Runs a graph and shows what goes into each node and what comes out."""

    def __init__(self, model: fx.GraphModule) -> None:
        super().__init__(model)
        self.extra_traceback = False  # our errors name the node themselves

    def before(self, node: fx.Node, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Called before a node runs."""

    def after(self, node: fx.Node, result: Any) -> None:
        """Called when a node has run."""

    def run_node(self, n: fx.Node) -> Any:
        args, kwargs = self.fetch_args_kwargs_from_env(n)
        self.before(n, args, kwargs)
        try:
            result = getattr(self, n.op)(n.target, args, kwargs)
        except (RuntimeError, TypeError, IndexError, ValueError) as error:
            raise ValueError(f"node '{n.name}' does not run on the inputs given: {error}") from error
        self.after(n, result)
        return result

    def placeholder(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return next(self.args_iter)  # fx itself would take a list of all the rest for `*args` and `**kwargs`


def inputs_of(graph: MaseGraph) -> list[fx.Node]:
    return [node for node in graph.fx_graph.nodes if node.op == "placeholder"]


def bind_inputs(graph: MaseGraph, inputs: Mapping[str, Any]) -> list[Any]:
    """The values of the graph's inputs in their order, with the defaults of those that are not given.

    Tensors are copies, which the model may write into. `*args` is given under its name, as a list; what no other
    input is called goes into `**kwargs`.
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
    copied: list[Any] = pytree.tree_map_only(Tensor, lambda tensor: tensor.detach().clone(), values)
    return copied


def _value(node: fx.Node, inputs: Mapping[str, Any]) -> Any:
    """What is given for one input, or its default."""
    name = str(node.target).lstrip("*")
    is_list = name != node.target
    if name not in inputs:
        if not node.args and not is_list:
            takes = (str(other.target) for other in node.graph.nodes if other.op == "placeholder")
            raise ValueError(f"the inputs lack '{name}'; the model takes {', '.join(takes)}")
        return node.args[0] if node.args else ()
    if is_list and not isinstance(inputs[name], list | tuple):
        raise ValueError(f"'{node.target}' takes a list of inputs, got a {type(inputs[name]).__name__}")
    return inputs[name]


def noted_inputs(graph: MaseGraph) -> dict[str, Any]:
    """The batch of the annotating run, by argument name."""
    given = {str(node.target): node.meta["mase"].given for node in inputs_of(graph)}
    if not all(given.values()):
        raise ValueError("the graph keeps no values of its inputs: this needs 'dummy_in', a batch of them")
    inputs: dict[str, Any] = {}
    for target, (value,) in given.items():
        inputs |= value if target.startswith("**") else {target.lstrip("*"): value}
    return inputs


@contextmanager
def undisturbed(model: nn.Module) -> Iterator[None]:
    """Evaluation mode without gradients; afterwards mode, parameters, buffers and random state are as before."""
    training = model.training
    modes = [(module, module.training) for module in model.modules()]
    tensors = [(tensor, tensor.detach().clone()) for module in model.modules() for tensor in _writable(module)]
    model.eval()
    try:
        with torch.no_grad(), torch.random.fork_rng(devices=[]):
            yield
    finally:
        model.train(training)
        for module, mode in modes:
            module.training = mode
        with torch.no_grad():
            for tensor, before in tensors:
                if not tensor.equal(before):  # batch norm writes without counting up `_version`
                    tensor.copy_(before)


def _writable(module: nn.Module) -> list[Tensor]:
    """What a run may write into: buffers, and parameters but for those of layers known to leave them alone."""
    kind = module.base_class if isinstance(module, QuantizedLayer) else type(module)
    leaves_alone = op_of_module(kind) is not None and getattr(module, "max_norm", None) is None
    held = [*module._buffers.values(), *(() if leaves_alone else module._parameters.values())]
    return [tensor for tensor in held if tensor is not None]


def named_inputs(meta: NodeMeta, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Tensor]:
    """The tensors that go into a call of a node: an op's by the names of its operands, others' as `data_in_{i}`."""
    if meta.op is not None:
        return {name: value for name, _, value in meta.op.bound(args, kwargs) if isinstance(value, Tensor)}
    found = tensors_in((args, kwargs)) if meta.node.op != "placeholder" else []
    return {f"data_in_{i}": tensor for i, tensor in enumerate(found)}


def tensors_in(value: Any) -> list[Tensor]:
    """All tensors in nested tuples, lists and dicts, in order."""
    if isinstance(value, Tensor):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    return [tensor for item in value for tensor in tensors_in(item)] if isinstance(value, tuple | list) else []
