"""Picojoules, computed by hand from the figures of Horowitz, ISSCC 2014."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from chop.cost import Energy, energy, in_formats
from chop.formats.fp8 import FP8
from chop.formats.integer import Integer
from chop.ir import NodeMeta
from chop.options import read_options
from samples import annotated

FREE = {"there": 0.0}


def arithmetic(**tables: Any) -> Energy:
    """Without the memory."""
    return Energy(memory=FREE, weights="there", activations="there", **tables)


def linear(**formats: Any) -> NodeMeta:
    """60 MACs; 12 numbers in, 25 parameters, 15 numbers out."""
    meta = annotated(nn.Sequential(nn.Linear(4, 5)), input=torch.randn(3, 4)).annotated_metas()[1]
    return in_formats(meta, formats)


@pytest.mark.parametrize(
    ("width", "add", "multiply"),
    [
        (8, 0.03, 0.2),
        (32, 0.1, 3.1),
        # A third of the way from 8 to 32; 192 of 960 from 64 to 1024.
        (16, 0.03 + 0.07 / 3, 0.2 + 2.9 / 5),
        (4, 0.015, 0.05),
        (64, 0.2, 12.4),
    ],
)
def test_integers_between_the_widths_of_the_table(width: int, add: float, multiply: float) -> None:
    table = Energy()
    assert table.add(width, floating_point=False) == pytest.approx(add)
    assert table.multiply(width, width, floating_point=False) == pytest.approx(multiply)


def test_floats_have_a_separate_table() -> None:
    table = Energy()
    assert [table.add(w, floating_point=True) for w in (16, 32, 8)] == pytest.approx([0.4, 0.9, 0.2])
    found = [table.multiply(w, w, floating_point=True) for w in (16, 32, 8)]
    assert found == pytest.approx([1.1, 3.7, 1.1 / 4])


def test_factors_of_two_widths_count_by_their_product() -> None:
    assert Energy().multiply(4, 8, floating_point=False) == pytest.approx(0.1)
    assert Energy().multiply(16, 4, floating_point=False) == pytest.approx(0.2)


def test_a_layer_computes_and_moves() -> None:
    weights, moved = 25 * 32 * 1300 / 64, 27 * 32 * 100 / 64
    assert energy(linear(), Energy()) == pytest.approx(60 * (3.7 + 0.9) + weights + moved)


def test_sums_of_integers_are_as_wide_as_a_product() -> None:
    meta = linear(data_in_0=Integer(8, 4), weight=Integer(8, 4))
    assert energy(meta, arithmetic()) == pytest.approx(60 * (0.2 + 0.03 + 0.07 / 3))
    # 4 x 8 bits, added in 12.
    meta = linear(data_in_0=Integer(4, 2), weight=Integer(8, 4))
    assert energy(meta, arithmetic()) == pytest.approx(60 * (0.1 + 0.03 + 0.07 * 4 / 24))


def test_a_product_with_one_float_is_floating_point() -> None:
    meta = linear(weight=FP8())
    assert energy(meta, arithmetic()) == pytest.approx(60 * (1.1 + 0.9))  # 32 x 8 = 16 x 16; added in 32 bits


def test_operations_that_are_not_macs() -> None:
    relu = annotated(nn.ReLU(), input=torch.randn(3, 4)).annotated_metas()[1]
    assert energy(relu, arithmetic()) == pytest.approx(12 * 0.9)
    assert energy(in_formats(relu, {"data_in_0": Integer(8, 4)}), arithmetic()) == pytest.approx(12 * 0.03)
    softmax = annotated(nn.Softmax(-1), input=torch.randn(10, 4)).annotated_metas()[1]
    assert energy(softmax, arithmetic()) == pytest.approx(80 * 3.7 + 30 * 0.9)


def test_tensors_of_integers_are_not_floating_point() -> None:
    class Add(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x + x

    add = annotated(Add(), x=torch.arange(3)).annotated_metas()[1]
    assert energy(add, arithmetic()) == pytest.approx(3 * 0.1)


def test_weights_and_activations_are_in_the_memories_of_the_table() -> None:
    class Functional(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.randn(5, 4))

        def forward(self, x: Tensor) -> Tensor:
            return F.linear(x, self.weight)

    table = Energy(memory={"near": 1.0, "far": 10.0}, weights="far", activations="near")
    metas = annotated(Functional(), x=torch.randn(3, 4)).annotated_metas()
    assert energy(metas[2], table) == pytest.approx(60 * 4.6 + 20 * 32 * 10 + 27 * 32)
    assert [energy(meta, table) for meta in (*metas[:2], metas[3])] == [0.0, 0.0, 0.0]


def test_a_users_table() -> None:
    table = read_options(Energy, {"integer_multiply": {"4": 1.0}, "integer_add": {"8": 2}}, "energy")
    meta = linear(data_in_0=Integer(4, 2), weight=Integer(4, 2))
    own = arithmetic(integer_multiply=table.integer_multiply, integer_add=table.integer_add)
    assert energy(meta, own) == pytest.approx(60 * 3.0)
    assert table.float_add == {16: 0.4, 32: 0.9}


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ({"weights": "drams"}, "unknown memory 'drams'; did you mean 'dram'"),
        ({"float_add": {"sixteen": 1.0}}, "float_add must have widths in bits as keys"),
        ({"float_ad": {}}, "unknown key 'float_ad'; did you mean 'float_add'"),
        (
            {"memory": {"dram": -1.0, "cache_1mb": 1.0}},
            "memory 'dram' must have picojoules per bit of at least 0, got -1.0",
        ),
        ({"memory": {"dram": float("inf"), "cache_1mb": 1.0}}, "must be a finite number, got inf"),
    ],
)
def test_errors_in_a_table_are_reported(table: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        read_options(Energy, table, "energy")


def test_unknown_operations_are_none() -> None:
    class Unknown(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return torch.sinc(x)

    assert energy(annotated(Unknown(), x=torch.randn(3)).annotated_metas()[1], Energy()) is None
