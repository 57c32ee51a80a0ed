"""The inputs and outputs of an exported graph, as the model's forward has them.

torch.export flattens both: `forward(pair)` becomes a graph with the inputs `pair_0` and `pair_1`, a dict becomes a
list of its values.
"""

from __future__ import annotations

import inspect
import operator
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from torch import Tensor, fx, nn
from torch.utils import _pytree as pytree

from chop.ir.graph.input_sizes import CAPTURED_SIZES, CapturedSizes
from chop.registry import closest


def named_inputs(model: nn.Module, given: Any) -> dict[str, Any]:
    """Return example inputs by argument name, in the order of the model's forward."""
    parameters = inspect.signature(model.forward).parameters
    takes_any = any(each.kind is each.VAR_KEYWORD for each in parameters.values())
    if isinstance(given, Mapping):
        for name in given:
            if name not in parameters and not takes_any:
                known = closest(str(name), parameters)
                raise ValueError(f"example_inputs: {type(model).__name__}.forward has no '{name}'; {known}")
        order = [
            *(name for name in parameters if name in given),
            *(name for name in given if name not in parameters),
        ]
        return {name: given[name] for name in order}
    values = (given,) if isinstance(given, Tensor) else tuple(given)
    if len(values) > len(parameters):
        raise ValueError(
            f"example_inputs: {type(model).__name__}.forward takes {len(parameters)} arguments at most"
        )
    return dict(zip(parameters, values, strict=False))


def restore_inputs(
    graph: fx.Graph, placeholders: list[fx.Node], inputs: Mapping[str, Any], sizes: Mapping[str, CapturedSizes]
) -> None:
    """Replace the flat inputs by one per argument; arguments without tensors are constants, and no inputs."""
    remaining = iter(placeholders)
    first = next(iter(graph.nodes))
    for name, value in inputs.items():
        leaves = [(path, next(remaining)) for path, _ in pytree.tree_leaves_with_path(value)]
        tensors = [leaf for leaf in pytree.tree_leaves(value) if isinstance(leaf, Tensor)]
        if tensors:
            with graph.inserting_before(first):
                argument = graph.placeholder(name)
            if name in sizes:
                argument.meta[CAPTURED_SIZES] = sizes[name]
            for path, leaf in leaves:
                _replace(leaf, argument, path)
    for placeholder in placeholders:
        graph.erase_node(placeholder)


def _replace(leaf: fx.Node, argument: fx.Node, path: Any) -> None:
    """Let the readers of a flat input read a part of an argument."""
    if not leaf.users:
        return
    part = argument
    with argument.graph.inserting_before(leaf):
        for key in path:
            index = key.idx if isinstance(key, pytree.SequenceKey) else key.key
            part = argument.graph.call_function(operator.getitem, (part, index))
    part.meta["val"] = leaf.meta["val"]
    leaf.replace_all_uses_with(part)


def with_dataclasses(graph: fx.Graph, value: Any) -> Any:
    """Return nested outputs in which each dataclass is a node that makes it."""
    if is_dataclass(value) and not isinstance(value, type):
        parts = ((field.name, getattr(value, field.name)) for field in fields(value))
        given = {name: with_dataclasses(graph, part) for name, part in parts if part is not None}
        return graph.call_function(type(value), (), given)
    if isinstance(value, dict):
        return {key: with_dataclasses(graph, part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        parts_of = [with_dataclasses(graph, part) for part in value]
        return type(value)(*parts_of) if hasattr(value, "_fields") else type(value)(parts_of)
    return value


def register_dataclasses(value: Any) -> None:
    """Let torch.export flatten the dataclasses in a model's output, which are leaves until then."""
    for leaf in pytree.tree_leaves(value):
        if is_dataclass(leaf) and not isinstance(leaf, type):
            if type(leaf) not in pytree.SUPPORTED_NODES:
                pytree.register_dataclass(type(leaf))
            register_dataclasses(leaf)
