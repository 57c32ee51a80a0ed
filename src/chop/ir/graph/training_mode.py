"""Arguments that follow the model's mode.

torch.fx records the flag in `F.dropout(x, 0.5, self.training)` as the constant that it was during tracing. This
module finds such constants by comparing the graphs of both modes, and updates them when the model's mode is set.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import fx
from torch.fx.node import map_aggregate

ByMode = Mapping[int | str, tuple[Any, Any]]
"""The values of an argument in evaluation and in training, by its position or keyword."""

BY_MODE = "by_mode"
"""The key of a node's `ByMode` in its `meta`."""

_FUNCTIONS = ("dropout", "batch_norm", "instance_norm", "attention", "rrelu")


def may_follow_mode(graph: fx.Graph) -> bool:
    """Whether a function whose behaviour depends on the mode has constants among its arguments."""
    return any(
        node.op == "call_function"
        and any(word in getattr(node.target, "__name__", "") for word in _FUNCTIONS)
        and any(isinstance(value, bool | float) for value in _arguments(node).values())
        for node in graph.nodes
    )


def bind_to_mode(graph: fx.Graph, in_evaluation: fx.Graph, in_training: fx.Graph) -> bool:
    """Let the arguments that differ between the modes follow the mode; return False if anything else differs."""
    graphs = [list(each.nodes) for each in (graph, in_evaluation, in_training)]
    if len({len(nodes) for nodes in graphs}) > 1:
        return False
    positions = {node: position for nodes in graphs for position, node in enumerate(nodes)}
    found: dict[fx.Node, ByMode] = {}
    for node, evaluated, trained in zip(*graphs, strict=True):
        # Constants are attributes of the model, whose names differ between two tracings.
        kinds = {(n.op, None if n.op == "get_attr" else n.target) for n in (node, evaluated, trained)}
        by_mode = _differences(evaluated, trained, positions) if len(kinds) == 1 else None
        if by_mode is None:
            return False
        found[node] = by_mode
    for node, by_mode in found.items():
        if by_mode:
            node.meta[BY_MODE] = by_mode
    return True


def _differences(evaluated: fx.Node, trained: fx.Node, positions: Mapping[fx.Node, int]) -> ByMode | None:
    """Return the arguments that differ between two nodes; None if one of them is not a number."""
    first, second = (
        {key: _by_position(value, positions) for key, value in _arguments(node).items()}
        for node in (evaluated, trained)
    )
    if first.keys() != second.keys():
        return None
    differing = {key: (value, second[key]) for key, value in first.items() if value != second[key]}
    are_numbers = all(isinstance(value, bool | int | float) for pair in differing.values() for value in pair)
    return differing if are_numbers else None


def set_mode(graph: fx.Graph, training: bool) -> bool:
    """Set the arguments that follow the mode; return whether there are any."""
    following = [node for node in graph.nodes if BY_MODE in node.meta]
    for node in following:
        by_mode: ByMode = node.meta[BY_MODE]
        for key, values in by_mode.items():
            if isinstance(key, int):
                node.update_arg(key, values[training])
            else:
                node.update_kwarg(key, values[training])
    return bool(following)


def _arguments(node: fx.Node) -> dict[int | str, Any]:
    arguments: dict[int | str, Any] = dict(enumerate(node.args))
    return arguments | dict(node.kwargs.items())


def _by_position(argument: Any, positions: Mapping[fx.Node, int]) -> Any:
    """Return an argument that can be compared with one of another graph: nodes become their positions."""
    return map_aggregate(argument, lambda item: ("node", positions[item]) if isinstance(item, fx.Node) else item)
