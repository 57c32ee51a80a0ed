"""Running a graph node by node, and leaving it as it was."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, fx, nn

from chop.ir.graph.mase_graph import MaseGraph
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


def bind_inputs(graph: MaseGraph, inputs: Mapping[str, Any]) -> list[Any]:
    """The values of the graph's inputs in their order, with the defaults of those that are not given."""
    if not isinstance(inputs, Mapping):
        raise ValueError(f"inputs must be a dict such as {{'x': tensor}}, got {type(inputs).__name__}")
    placeholders = [node for node in graph.fx_graph.nodes if node.op == "placeholder"]
    names = [str(node.target) for node in placeholders]
    for name in inputs:
        if name not in names:
            raise ValueError(f"the model has no input '{name}'; {closest(name, names)}")
    missing = [name for name, node in zip(names, placeholders, strict=True) if name not in inputs and not node.args]
    if missing:
        raise ValueError(f"the inputs lack '{missing[0]}'; the model takes {', '.join(names)}")
    return [
        inputs[name] if name in inputs else node.args[0] for name, node in zip(names, placeholders, strict=True)
    ]


@contextmanager
def undisturbed(model: nn.Module) -> Iterator[None]:
    """Evaluation mode without gradients; afterwards mode, buffers and random state are as before."""
    modes = [(module, module.training) for module in model.modules()]
    buffers = [(buffer, buffer.clone()) for buffer in model.buffers()]
    model.eval()
    try:
        with torch.no_grad(), torch.random.fork_rng(devices=[]):
            yield
    finally:
        for module, training in modes:
            module.training = training
        with torch.no_grad():
            for buffer, before in buffers:
                if not buffer.equal(before):  # batch norm writes without counting up `_version`
                    buffer.copy_(before)


def tensors_in(value: Any) -> list[Tensor]:
    """All tensors in nested tuples, lists and dicts, in order."""
    if isinstance(value, Tensor):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    return [tensor for item in value for tensor in tensors_in(item)] if isinstance(value, tuple | list) else []
