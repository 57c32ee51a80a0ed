"""Activations over the schedule, computed by hand."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from chop.cost import Activations, activations, as_stored, in_formats
from chop.formats import Format
from chop.formats.integer import Integer
from chop.ir import NodeMeta
from samples import annotated

ROW = 8 * 32
"""Bits of 2 x 4 floats."""


class Apply(nn.Module):
    """A function of a tensor and of this model's layers."""

    def __init__(self, function: Callable[[Any, Tensor], Any]) -> None:
        super().__init__()
        self.function = function
        self.one = nn.Linear(4, 4)
        self.two = nn.Linear(4, 4)
        self.flat = nn.Linear(8, 8)
        self.weight = nn.Parameter(torch.randn(4, 4))

    def forward(self, x: Tensor) -> Any:
        return self.function(self, x)


def metas_of(function: Callable[[Any, Tensor], Any]) -> list[NodeMeta]:
    return annotated(Apply(function), x=torch.randn(2, 4)).annotated_metas()


def of(function: Callable[[Any, Tensor], Any]) -> Activations:
    return activations(metas_of(function))


def with_formats(metas: list[NodeMeta], formats: Mapping[str, Mapping[str, Format]]) -> list[NodeMeta]:
    return [in_formats(meta, formats.get(meta.node.name, {})) for meta in metas]


def test_a_chain_holds_two_at_a_time() -> None:
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    found = activations(annotated(model, input=torch.randn(2, 4)).annotated_metas())
    assert found.by_node == {"input_1": ROW, "_0": 2 * ROW, "_1": 2 * ROW, "_2": ROW // 2, "output": 0}
    assert (found.peak, found.peak_node) == (4 * ROW, "_1")
    assert found.total == 5 * ROW + ROW // 2
    assert isinstance(found.peak, int)


def test_in_place_ops_need_no_memory() -> None:
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(inplace=True), nn.Linear(8, 2))
    found = activations(annotated(model, input=torch.randn(2, 4)).annotated_metas())
    assert found.by_node["_1"] == 0
    assert (found.peak, found.peak_node) == (3 * ROW, "_0")  # the input and the first result


@pytest.mark.parametrize(
    "function",
    [
        lambda m, x: m.one(x).relu_() + x,
        lambda m, x: F.relu(m.one(x), inplace=True) + x,
        lambda m, x: m.one(x).add_(x),
    ],
)
def test_every_way_to_work_in_place(function: Callable[[Any, Tensor], Tensor]) -> None:
    found = of(function)
    assert sum(size == 0 for size in found.by_node.values()) == 2  # the op itself, and the output
    assert found.peak <= 3 * ROW


def test_a_shortcut_is_kept_until_it_is_added() -> None:
    found = of(lambda m, x: m.two(m.one(x).relu()) + x)
    # At each of relu, two and add: the input, what is read and what is made.
    assert (found.peak, found.peak_node) == (3 * ROW, "relu")


def test_a_view_keeps_the_memory_of_its_input() -> None:
    def forward(m: Any, x: Tensor) -> Tensor:
        flat = x.flatten()
        return torch.sigmoid(m.flat(flat)) * flat

    found = of(forward)
    assert found.by_node["flatten"] == 0
    assert (found.peak, found.peak_node) == (3 * ROW, "sigmoid")  # x is still read by the product


@pytest.mark.parametrize(
    ("function", "copies"),
    [
        (lambda m, x: x.transpose(0, 1).reshape(2, 4), 0),
        (lambda m, x: x[:1, 2:].unsqueeze(0).expand(3, 1, 2), 0),
        (lambda m, x: x.detach().float().to(torch.float32), 0),
        (lambda m, x: x[:, x.size(1) - 1], 0),
        (lambda m, x: x.clone(), 1),
        (lambda m, x: x.repeat(1, 1), 1),
        (lambda m, x: x[[0, 1]], 1),
        (lambda m, x: torch.cat([x]), 1),
        (lambda m, x: torch.stack([x]), 1),
    ],
)
def test_views_and_copies(function: Callable[[Any, Tensor], Tensor], copies: int) -> None:
    found = of(function)
    assert found.total == (1 + copies) * ROW


def test_items_of_a_tuple_are_views() -> None:
    def forward(m: Any, x: Tensor) -> Tensor:
        left, right = x.chunk(2, dim=1)
        return left * right

    found = of(forward)
    assert [size for size in found.by_node.values() if size] == [ROW, ROW // 2]
    assert found.peak == ROW + ROW // 2


def test_reading_a_shape_does_not_keep_a_tensor() -> None:
    found = of(lambda m, x: m.two(m.one(x)).view(x.size(0), -1))
    assert found.peak == 2 * ROW
    assert of(lambda m, x: m.two(m.one(x)) + x).peak == 3 * ROW


def test_outputs_are_kept_until_the_end() -> None:
    def forward(m: Any, x: Tensor) -> tuple[Tensor, Tensor]:
        first = m.one(x)
        return first, m.two(m.two(m.two(x)))

    found = of(forward)
    assert (found.peak, found.peak_node) == (3 * ROW, "two")  # first, x and the first of the second layer


def test_weights_are_not_activations() -> None:
    found = of(lambda m, x: F.linear(x, m.weight.t() * 2.0))
    assert {name for name, size in found.by_node.items() if size} == {"x", "linear"}
    assert found.total == 2 * ROW


def test_indices_have_the_bits_of_their_dtype() -> None:
    metas = annotated(nn.Sequential(nn.Embedding(9, 4)), input=torch.tensor([1, 2, 3])).annotated_metas()
    assert activations(metas).by_node == {"input_1": 3 * 64, "_0": 12 * 32, "output": 0}


def test_an_activation_is_stored_in_the_format_it_is_read_in() -> None:
    metas = metas_of(lambda m, x: m.two(m.one(x).relu()))
    eight = with_formats(metas, {"two": {"data_in_0": Integer(8, 4)}})
    found = activations(eight)
    assert found.by_node == {"x": ROW, "one": ROW, "relu": ROW // 4, "two": ROW, "output": 0}
    assert (found.peak, found.peak_node) == (2 * ROW, "one")
    assert activations(metas).by_node["relu"] == ROW  # the graph itself is as it was


def test_the_widest_format_of_all_readers_is_stored() -> None:
    metas = metas_of(lambda m, x: m.one(x) @ m.two(x).t())
    eight, four = {"data_in_0": Integer(8, 4)}, {"data_in_0": Integer(4, 2)}
    assert activations(with_formats(metas, {"one": eight, "two": four})).by_node["x"] == ROW // 4
    assert activations(with_formats(metas, {"two": four})).by_node["x"] == ROW


def test_a_rounded_result_is_stored_in_its_format() -> None:
    metas = metas_of(lambda m, x: m.two(m.one(x)))
    rounded = with_formats(metas, {"one": {"data_out_0": Integer(16, 8)}, "two": {"data_in_0": Integer(8, 4)}})
    assert activations(rounded).by_node["one"] == ROW // 2


def test_movement_passes_on_the_format_of_its_readers() -> None:
    metas = metas_of(lambda m, x: m.flat(F.dropout(x.flatten(), training=False)))
    eight = with_formats(metas, {"flat": {"data_in_0": Integer(8, 4)}})
    assert activations(eight).by_node["x"] == ROW // 4
    formats = {meta.node.name: str(next(iter(meta.results.values())).format) for meta in as_stored(eight)}
    assert formats["x"] == formats["flatten"] == formats["dropout"] == "integer(8, 4)"
    assert formats["flat"] == "float(32)"


def test_formats_of_missing_operands_are_rejected() -> None:
    one = metas_of(lambda m, x: m.one(x))[1]
    with pytest.raises(ValueError, match="node 'one' has no operand 'wieght'; did you mean 'weight'"):
        in_formats(one, {"wieght": Integer(8, 4)})
