"""The module that each node of a graph belongs to."""

from __future__ import annotations

from collections.abc import Iterable

from torch import fx

ModuleScope = tuple[str, ...]
"""The path of a module, such as `("blocks", "0")`."""


def module_scopes(nodes: Iterable[fx.Node]) -> dict[fx.Node, ModuleScope]:
    """Return, for each node, the module whose `forward` makes the call.

    torch.fx records it while tracing. In a graph that has lost the record, a function belongs to the innermost
    module that contains all of its inputs.
    """
    found: dict[fx.Node, ModuleScope] = {}
    for node in nodes:
        if node.op == "call_module":
            found[node] = tuple(str(node.target).split(".")[:-1])
        elif node.op in ("placeholder", "output"):
            found[node] = ()
        else:
            recorded = _recorded_scope(node)
            inputs = [found[each] for each in node.all_input_nodes]
            found[node] = _common_scope(inputs) if recorded is None else recorded
    return found


def _recorded_scope(node: fx.Node) -> ModuleScope | None:
    stack = node.meta.get("nn_module_stack")
    if not stack:
        return None
    path, _ = list(stack.values())[-1]
    return tuple(str(path).split(".")) if path else ()


def _common_scope(scopes: list[ModuleScope]) -> ModuleScope:
    """Return the path that all scopes start with."""
    if not scopes:
        return ()
    first, last = min(scopes), max(scopes)
    same = [a == b for a, b in zip(first, last, strict=False)]
    return first[: same.index(False) if False in same else len(same)]
