"""Learned scales of functions: parameters of the model that the calls of nodes refer to."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from torch import fx, nn

from chop.nn.quantized import QuantizedCall
from chop.nn.quantized.operand_scales import scale_name


def set_call(node: fx.Node, call: QuantizedCall) -> None:
    """Let a node call a quantised function, whose learned scales become parameters such as `add_data_in_scale`."""
    model = node.graph.owning_module
    assert model is not None, "a MaseGraph's fx graph always belongs to its model"
    if isinstance(node.target, QuantizedCall):
        for operand in node.target.learned:
            model._parameters.pop(parameter_name(node, operand), None)
    for operand, scale in call.learned.items():
        model.register_parameter(parameter_name(node, operand), scale)
    node.target, node.op = call, "call_function"


def bind_scales(graph: fx.Graph, root: nn.Module) -> None:
    """Let the calls of a graph use the parameters of `root`, after nodes were copied or read from a file."""
    for node in graph.nodes:
        call = node.target
        if isinstance(call, QuantizedCall) and call.learned:
            names = {operand: parameter_name(node, operand) for operand in call.learned}
            missing = [name for name in names.values() if root._parameters.get(name) is None]
            if missing:
                raise ValueError(f"node '{node.name}' has a learned scale, but the model has no '{missing[0]}'")
            node.target = replace(call, learned={each: root._parameters[name] for each, name in names.items()})


def scales_of_calls(model: fx.GraphModule) -> Iterator[nn.Parameter]:
    """Yield the learned scales of all functions of a graph."""
    for node in model.graph.nodes:
        if isinstance(node.target, QuantizedCall):
            yield from (scale for scale in node.target.learned.values() if scale is not None)


def parameter_name(node: fx.Node, operand: str) -> str:
    """Return the name of the parameter with the learned scale of an operand."""
    return f"{node.name}_{scale_name(operand)}"
