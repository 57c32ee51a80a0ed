"""Items grouped by the layer that they call."""

from __future__ import annotations

from torch import nn

from chop.ir.graph.shared_layers import group_by_layer


def test_items_with_the_same_layer_are_one_group() -> None:
    layer, equal = nn.ReLU(), nn.ReLU()
    calls = [("a", layer), ("b", None), ("c", layer), ("d", equal), ("e", None)]
    assert group_by_layer(calls) == [("a", "c"), ("b",), ("d",), ("e",)]


def test_without_items_there_are_no_groups() -> None:
    assert group_by_layer([]) == []
