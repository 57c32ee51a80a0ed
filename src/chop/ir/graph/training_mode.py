"""Arguments that follow the mode of a module.

torch.fx records the flag in `F.dropout(x, 0.5, self.training)` as the constant that it was during tracing. This
module finds such constants by comparing the graphs of both modes, and sets them to the mode of `self`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from torch import fx, nn
from torch.fx.node import map_aggregate

ByMode = Mapping[int | str, tuple[Any, Any]]
"""The values of an argument in evaluation and in training, by its position or keyword."""

BY_MODE = "by_mode"
"""The key of a node's `ByMode` in its `meta`."""

MODE_OF = "mode_of"
"""The key in a node's `meta` of the path of the module whose mode they follow."""

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
            node.meta[MODE_OF] = innermost_module(node)
    return True


def innermost_module(node: fx.Node) -> str:
    """Return the path of the module whose forward calls a node."""
    stack = node.meta.get("nn_module_stack") or {}  # by call; the second call of `fc` is `fc@1`
    return next((path for path, _ in reversed(stack.values())), "")


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


def nodes_that_follow_the_mode(graph: fx.Graph) -> list[fx.Node]:
    """Return the nodes with arguments that follow the mode."""
    return [node for node in graph.nodes if BY_MODE in node.meta]


def set_arguments(nodes: Iterable[fx.Node], model: nn.Module) -> bool:
    """Set the arguments that follow the mode to the mode of their modules; return whether any has changed."""
    changed = False
    for node in nodes:
        training = model.get_submodule(node.meta[MODE_OF]).training
        by_mode: ByMode = node.meta[BY_MODE]
        present = _arguments(node)
        for key, values in by_mode.items():
            if present[key] == values[training]:
                continue
            changed = True
            if isinstance(key, int):
                node.update_arg(key, values[training])
            else:
                node.update_kwarg(key, values[training])
    return changed


def _arguments(node: fx.Node) -> dict[int | str, Any]:
    arguments: dict[int | str, Any] = dict(enumerate(node.args))
    return arguments | dict(node.kwargs.items())


def _by_position(argument: Any, positions: Mapping[fx.Node, int]) -> Any:
    """Return an argument that can be compared with one of another graph: nodes become their positions."""
    return map_aggregate(argument, lambda item: ("node", positions[item]) if isinstance(item, fx.Node) else item)
