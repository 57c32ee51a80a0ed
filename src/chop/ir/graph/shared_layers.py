"""Layers that are called at several nodes, and so have one set of formats."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from torch import nn

T = TypeVar("T")


def group_by_layer(items: Iterable[tuple[T, nn.Module | None]]) -> list[tuple[T, ...]]:
    """Group items, such as nodes, by the layer that each calls; an item without a layer is alone in its group.

    Nodes a and c call one layer, b calls a function: the groups are (a, c) and (b,), in the order of their first
    items.
    """
    groups: dict[object, list[T]] = {}
    for item, layer in items:
        groups.setdefault(object() if layer is None else layer, []).append(item)
    return [tuple(group) for group in groups.values()]
