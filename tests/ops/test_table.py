"""Lookup of ops by their spellings, and the argument positions of overloads of ATen."""

from __future__ import annotations

import operator
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, fx

from chop.ir.graph.in_place import writes_in_place
from chop.ops import OPS, function_named, op_of_function, qualified_name
from chop.passes.graph import (
    load_mase_graph_interface_pass,
    quantize_transform_pass,
    save_mase_graph_interface_pass,
)
from samples import FLAT, IMAGE, annotated, function

aten = torch.ops.aten

OVERLOADS: list[tuple[Any, str, dict[str, int]]] = [
    (aten.linear.default, "linear", {"data_in_0": 0, "weight": 1, "bias": 2}),
    (aten.matmul.default, "matmul", {"data_in_0": 0, "data_in_1": 1}),
    (aten.softmax.int, "softmax", {"data_in_0": 0}),
    (aten.layer_norm.default, "layer_norm", {"data_in_0": 0, "weight": 2, "bias": 3}),
    # F.embedding(input, weight) and F.batch_norm(input, mean, var, weight, bias) have another order.
    (aten.embedding.default, "embedding", {"data_in_0": 1, "weight": 0}),
    (aten.batch_norm.default, "batch_norm", {"data_in_0": 0, "weight": 1, "bias": 2}),
    (aten.add.Tensor, "add", {"data_in_0": 0, "data_in_1": 1}),
    (aten.add_.Tensor, "add", {"data_in_0": 0, "data_in_1": 1}),
    (aten.conv2d.padding, "conv2d", {"data_in_0": 0, "weight": 1, "bias": 2}),
    (
        aten.scaled_dot_product_attention.default,
        "scaled_dot_product_attention",
        {f"data_in_{i}": i for i in range(3)},
    ),
    (aten.cat.default, "cat", {"data_in_0": 0}),
    (aten.transpose.int, "transpose", {"data_in_0": 0}),
]


@pytest.mark.parametrize(("overload", "name", "positions"), OVERLOADS, ids=[str(row[0]) for row in OVERLOADS])
def test_an_overload_of_aten_is_a_spelling_with_positions_of_its_own(
    overload: Any, name: str, positions: dict[str, int]
) -> None:
    op = op_of_function(overload)
    assert op is not None
    assert op.name == name
    assert {operand.name: operand.position for operand in op.operands} == positions
    assert op_of_function(overload) is op


def test_an_overload_has_one_name_and_pickles() -> None:
    assert qualified_name(aten.linear.default) == "aten.linear.default"
    assert function_named("aten.linear.default") is aten.linear.default
    op = op_of_function(aten.embedding.default)
    assert pickle.loads(pickle.dumps(op)) is op
    assert pickle.loads(pickle.dumps(OPS["embedding"])) is OPS["embedding"]


@pytest.mark.parametrize(
    "name",
    ["aten.linear", "aten.linear.out_of", "aten.__class__.mro", "aten..", "aten.set_.source_Tensor", "os.system"],
)
def test_only_functions_of_the_table_have_a_name(name: str) -> None:
    assert function_named(name) is None


def test_settings_are_found_by_their_names() -> None:
    pool = op_of_function(aten.max_pool2d.default)
    assert pool is not None
    assert pool.settings(None, (IMAGE, [2, 2]), {}) == {"kernel_size": [2, 2]}


CALLS: list[tuple[Callable[..., Any], tuple[Tensor, ...], Callable[..., Any]]] = [
    (aten.linear.default, (FLAT, FLAT[:3]), F.linear),
    (aten.embedding.default, (FLAT, torch.tensor([0, 2])), lambda w, i: F.embedding(i, w)),
    (aten.relu_.default, (FLAT,), F.relu),
    (aten.add_.Tensor, (FLAT, 1 + FLAT), torch.add),
]


@pytest.mark.parametrize(("overload", "inputs", "plain"), CALLS, ids=[str(call[0]) for call in CALLS])
def test_a_quantised_overload_computes_as_the_function_and_is_saved_and_loaded(
    overload: Any, inputs: tuple[Tensor, ...], plain: Callable[..., Any], tmp_path: Path
) -> None:
    config = {"by": "type", "default": {"config": {"name": "integer", "data_in_width": 8, "data_in_frac_width": 4}}}
    results = []
    for target in (overload, plain):
        sample = function(target, *inputs)
        graph = annotated(sample.model(), **sample.arguments())
        graph, info = quantize_transform_pass(graph, config)
        assert len(info["quantized"]) == 1
        results.append(graph.model(**sample.arguments()))
        if target is overload:
            save_mase_graph_interface_pass(graph, tmp_path)
            loaded, _ = load_mase_graph_interface_pass(None, tmp_path)
            results.append(loaded.model(**sample.arguments()))
    assert results[0].equal(results[1])
    assert results[0].equal(results[2])


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        (aten.relu_.default, True),
        (aten.add_.Tensor, True),
        (aten.relu.default, False),
        (operator.ipow, True),
        (operator.pow, False),
        (operator.and_, False),  # its name ends with an underscore
        (operator.iand, True),
        (torch.masked_fill, False),
    ],
)
def test_functions_that_work_in_place_are_known(target: Any, expected: bool) -> None:
    graph = fx.Graph()
    node = graph.call_function(target, (graph.placeholder("x"), graph.placeholder("y")))
    assert op_of_function(target) is not None
    assert writes_in_place(node, None) is expected
