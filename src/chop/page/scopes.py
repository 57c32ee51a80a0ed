"""The module that each node of a graph belongs to."""

from __future__ import annotations

from collections.abc import Iterable

from torch import fx

Scope = tuple[str, ...]


def scopes_of(nodes: Iterable[fx.Node]) -> dict[fx.Node, Scope]:
    """The path of the module whose forward makes each call.

    torch.fx notes it while it traces. Where a graph has lost it, a function is taken to belong where its inputs do.
    """
    found: dict[fx.Node, Scope] = {}
    for node in nodes:
        if node.op == "call_module":
            found[node] = tuple(str(node.target).split(".")[:-1])
        elif node.op in ("placeholder", "output"):
            found[node] = ()
        else:
            noted = _noted(node)
            found[node] = _shared([found[each] for each in node.all_input_nodes]) if noted is None else noted
    return found


def _noted(node: fx.Node) -> Scope | None:
    stack = node.meta.get("nn_module_stack")
    if not stack:
        return None
    path, _ = list(stack.values())[-1]
    return tuple(str(path).split(".")) if path else ()


def _shared(scopes: list[Scope]) -> Scope:
    """The path that all have in common."""
    if not scopes:
        return ()
    first, last = min(scopes), max(scopes)
    same = [a == b for a, b in zip(first, last, strict=False)]
    return first[: same.index(False) if False in same else len(same)]
