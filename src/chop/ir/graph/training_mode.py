"""Arguments that follow the mode of a module.

torch.fx records the flag in `F.dropout(x, 0.5, self.training)` as the constant that it was during tracing. This
module finds such constants by comparing the graphs of both modes, and sets them to the mode of `self`. If the modes
differ in more, the graph is for evaluation only.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Mapping
from typing import Any

from torch import fx, nn
from torch.fx.node import map_aggregate

ByMode = Mapping[int | str, tuple[Any, Any]]
"""The values of an argument in evaluation and in training, by its position or keyword."""

BY_MODE = "by_mode"
"""The key of a node's `ByMode` in its `meta`."""

MODE_OF = "mode_of"
"""The key in a node's `meta` of the path of the module whose mode they follow."""

EVALUATION_ONLY = "evaluation_only"
"""The key in an output's `meta` of the modules in whose training mode the model computes something else.

They are paths, with the lines of source that read the mode."""

CONSTANT = "constant"
"""The key in a node's `meta` of the tensor that it reads if torch.fx made the attribute for it."""


def bind_to_mode(
    graph: fx.Graph, in_evaluation: fx.Graph, in_training: fx.Graph, readers: Collection[str]
) -> int | None:
    """Let the arguments that differ between the modes follow the mode of the module that reads it.

    `readers` are the paths of the modules whose mode is read. Return the position of the first node with other
    differences, for which nothing is bound, or None.
    """
    graphs = [list(each.nodes) for each in (graph, in_evaluation, in_training)]
    positions = {node: position for nodes in graphs for position, node in enumerate(nodes)}
    found: dict[fx.Node, tuple[ByMode, str]] = {}
    for position, (node, evaluated, trained) in enumerate(zip(*graphs, strict=False)):
        same_call = len({(each.op, _target(each)) for each in (node, evaluated, trained)}) == 1
        by_mode = _differences(evaluated, trained, positions) if same_call else None
        owner = _reader(node, readers) if by_mode else ""
        if by_mode is None or owner is None:
            return position
        if by_mode:
            found[node] = by_mode, owner
    if len({len(nodes) for nodes in graphs}) > 1:
        return min(map(len, graphs)) - 1
    for node, (by_mode, owner) in found.items():
        node.meta[BY_MODE], node.meta[MODE_OF] = by_mode, owner
    return None


def comparable(graph: fx.Graph) -> list[Hashable]:
    """Return the calls of a graph and what they are given, which can be compared with those of another tracing."""
    positions = {node: position for position, node in enumerate(graph.nodes)}
    return [(node.op, _target(node), _by_position(_arguments(node), positions)) for node in graph.nodes]


def _target(node: fx.Node) -> Hashable:
    """Return what a node calls or reads; the names of constants differ between two tracings."""
    constant = node.meta.get(CONSTANT)
    return str(node.target) if constant is None else (constant.dtype, constant.shape, str(constant.tolist()))


def _reader(node: fx.Node, readers: Collection[str]) -> str | None:
    """Return the module whose mode a node follows: the one whose forward calls it, or the only one that is read."""
    innermost = innermost_module(node)
    if innermost in readers:
        return innermost
    return next(iter(readers)) if len(readers) == 1 else None


def innermost_module(node: fx.Node) -> str:
    """Return the path of the module whose forward calls a node."""
    stack = node.meta.get("nn_module_stack") or {}  # by call; the second call of `fc` is `fc@1`
    return next((path for path, _ in reversed(stack.values())), "")


def _differences(evaluated: fx.Node, trained: fx.Node, positions: Mapping[fx.Node, int]) -> ByMode | None:
    """Return the arguments that differ between two nodes; None if one of them is not a number."""
    first, second = (_by_position(_arguments(node), positions) for node in (evaluated, trained))
    if first.keys() != second.keys():
        return None
    differing = {key: (value, second[key]) for key, value in first.items() if value != second[key]}
    are_numbers = all(isinstance(value, bool | int | float) for pair in differing.values() for value in pair)
    return differing if are_numbers else None


def check_mode(evaluation_only: Mapping[str, str], model: nn.Module) -> None:
    """Raise an error if a module is in training mode for which the graph does not hold.

    `evaluation_only` has the paths of such modules, each with the line that reads its mode.
    """
    for path, line in evaluation_only.items():
        if model.get_submodule(path).training:
            module = f"'{path}'" if path else "the model"
            raise ValueError(
                f"the graph of {type(model).__name__} is for evaluation: in training the model computes something "
                f"else, depending on the mode of {module}{line}; call model.eval() before the graph runs. To train "
                "it, move what depends on the mode into a module of its own and keep that as one node: "
                "MaseGraph(model, leaf_modules=(Class,))"
            )


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
    return map_aggregate(
        argument, lambda item: ("node", positions.get(item, item)) if isinstance(item, fx.Node) else item
    )
