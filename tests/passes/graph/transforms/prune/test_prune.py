"""Pruning: which weights become zero, and that they stay zero."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from chop.formats import FORMATS
from chop.ir import MaseGraph
from chop.ir.graph.storage import load_graph, save_graph
from chop.passes.graph import (
    add_pruning_metadata_analysis_pass,
    gptq_transform_pass,
    prune_detach_transform_pass,
    prune_transform_pass,
    quantize_transform_pass,
)
from samples import annotated

W4 = {"name": "integer", "data_in_name": "float", "weight_width": 4, "weight_frac_width": 3}


def two_layers() -> tuple[nn.Sequential, Tensor]:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 6), nn.ReLU(), nn.Linear(6, 4)), torch.randn(16, 8)


def graph_of(model: nn.Module, x: Tensor) -> MaseGraph:
    return annotated(model, input=x)


def weight(graph: MaseGraph, name: str = "0.weight") -> Tensor:
    return graph.model.get_parameter(name).detach()


def one_layer(values: list[list[float]]) -> MaseGraph:
    model = nn.Sequential(nn.Linear(len(values[0]), len(values), bias=False))
    with torch.no_grad():
        model[0].weight.copy_(torch.tensor(values))  # type: ignore[operator]
    return graph_of(model, torch.ones(2, len(values[0])))


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"sparsity": 0.5}, [[0, -5, 0, 4], [0, 6, -7, 0]]),
        ({"sparsity": 0.5, "method": "l2"}, [[0, -5, 0, 4], [0, 6, -7, 0]]),
        ({"sparsity": 0.5, "granularity": "channel"}, [[0, 0, 0, 0], [3.5, 6, -7, 1]]),
        ({"granularity": "2:4"}, [[0, -5, 0, 4], [0, 6, -7, 0]]),
        ({"granularity": "1:2"}, [[0, -5, 0, 4], [0, 6, -7, 0]]),
        ({"sparsity": 0.75, "method": "wanda"}, [[2, 0, 0, 0], [3.5, 0, 0, 0]]),
    ],
)
def test_the_least_important_weights_become_zero(options: dict[str, Any], expected: list[list[float]]) -> None:
    graph = one_layer([[2, -5, 3, 4], [3.5, 6, -7, 1]])
    batches = [({"input": torch.tensor([[100.0, 1.0, 0.1, 1.0]])}, None)]
    graph, info = prune_transform_pass(graph, {**options, "labelled_batches": batches})
    assert weight(graph).equal(torch.tensor(expected))
    assert info["layers"]["_0"]["sparsity"] == pytest.approx((torch.tensor(expected) == 0).double().mean().item())


def test_movement_keeps_the_weights_that_the_gradient_moves_away_from_zero() -> None:
    # Loss: cross entropy of outputs (w0 x, w1 x) with x = 1 and class 0: its gradient is (p0 - 1, p1).
    graph = one_layer([[1.0], [1.0]])
    batches = [({"input": torch.ones(2, 1)}, torch.tensor([0, 0]))]
    graph, _ = prune_transform_pass(graph, {"method": "movement", "labelled_batches": batches})
    assert weight(graph).equal(torch.tensor([[1.0], [0.0]]))


def test_global_pruning_takes_the_least_of_all_layers() -> None:
    model, x = two_layers()
    with torch.no_grad():
        model[0].weight.mul_(1e6)  # type: ignore[operator]
    graph, info = prune_transform_pass(graph_of(model, x), {"sparsity": 24 / 72, "scope": "global"})
    assert info["layers"] == {"_0": {"sparsity": 0.0}, "_2": {"sparsity": 1.0}}
    assert info["sparsity"] == pytest.approx(1 / 3)
    assert (weight(graph, "2.weight") == 0).all()
    assert model.get_parameter("2.weight").all(), "the original model keeps its weights"


@pytest.mark.parametrize("quantize_first", [True, False])
def test_masks_survive_quantising_training_copying_and_files(quantize_first: bool, tmp_path: Path) -> None:
    model, x = two_layers()
    graph = graph_of(model, x)
    steps = [(quantize_transform_pass, {"by": "type", "linear": {"config": W4}}), (prune_transform_pass, {})]
    for step, options in steps if quantize_first else reversed(steps):
        graph, _ = step(graph, options)
    zeros = weight(graph) == 0
    assert zeros.sum() == 24
    save_graph(graph, tmp_path)
    for each in (graph, MaseGraph(copy.deepcopy(graph.model)), load_graph(tmp_path)):
        optimizer = torch.optim.SGD(each.model.parameters(), lr=0.5, momentum=0.9, weight_decay=0.1)
        each.model.train()
        for _ in range(3):
            optimizer.zero_grad()
            each.model(x).square().sum().backward()
            optimizer.step()
        assert (weight(each) == 0).equal(zeros)
        assert each.model.eval()(x).isfinite().all()
    graph, info = prune_detach_transform_pass(graph)
    assert info["detached"] == ["_0", "_2"]
    assert not any(key.endswith("mask") for key in graph.model.state_dict())
    assert (weight(graph) == 0).equal(zeros)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name, each in FORMATS.items() if each.rounds and each().is_repeatable])
def test_quantising_and_pruning_in_either_order_give_the_same(name: str) -> None:
    """Also in training mode, and with the mask made permanent before the formats are set."""
    model, x = two_layers()
    quantize: Any = (quantize_transform_pass, {"by": "type", "linear": {"config": {"name": name}}})
    prune: Any = (prune_transform_pass, {"granularity": "2:4"})
    detach: Any = (prune_detach_transform_pass, {})
    results = []
    for steps in ((quantize, prune), (prune, quantize), (prune, detach, quantize), (quantize, prune, detach)):
        graph = graph_of(model, x)
        for step, options in steps:
            graph, _ = step(graph, options)
        results += [graph.model.train(mode)(x).detach() for mode in (False, True)]
    assert all(result.equal(results[0]) for result in results)


def test_pruned_weights_stay_pruned_at_a_higher_sparsity_and_with_gptq() -> None:
    model, x = two_layers()
    graph, _ = prune_transform_pass(graph_of(model, x), {"sparsity": 0.25, "method": "random"})
    first = weight(graph) == 0
    graph, _ = prune_transform_pass(graph, {"sparsity": 0.5})
    second = weight(graph) == 0
    assert first.sum() == 12
    assert second.sum() == 24
    assert (second | ~first).all()
    graph, _ = quantize_transform_pass(graph, {"by": "type", "linear": {"config": W4}})
    graph, _ = gptq_transform_pass(graph, {"input_generator": [{"input": x}]})
    assert (weight(graph)[second] == 0).all()


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"sparsity": 0.25}, [[0, 1, 0, 1], [0, 1, 1, 0]]),
        ({"sparsity": 0.25, "scope": "global"}, [[0, 1, 0, 1], [0, 1, 1, 0]]),
        ({"granularity": "3:4"}, [[0, 1, 0, 1], [0, 1, 1, 0]]),
        ({"sparsity": 0.5, "granularity": "channel"}, [[0, 0, 0, 0], [0, 1, 1, 0]]),
        ({"sparsity": 0.0, "granularity": "channel"}, [[0, 1, 0, 1], [0, 1, 1, 0]]),
    ],
)
def test_pruned_weights_keep_their_mask_at_a_lower_sparsity(
    options: dict[str, Any], expected: list[list[int]]
) -> None:
    graph = one_layer([[2, -5, 3, 4], [3.5, 6, -7, 1]])
    graph, _ = prune_transform_pass(graph, {"sparsity": 0.5})
    graph, info = prune_transform_pass(graph, options)
    layer: Any = graph.modules["0"]
    assert layer.weight_mask.tolist() == expected
    assert info["sparsity"] == (torch.tensor(expected) == 0).double().mean().item()


def test_the_sparsity_of_weights_and_activations_is_reported() -> None:
    graph = one_layer([[0.0, 1.0], [-1.0, 2.0]])
    _, info = add_pruning_metadata_analysis_pass(graph)
    assert info["by_node"]["_0"] == {"data_in_0": 0.0, "weight": 0.25, "data_out_0": 0.0}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"sparsity": 1.0}, "'sparsity' must be at least 0 and below 1, got 1.0"),
        ({"granularity": "4:2"}, "or a pattern such as '2:4', got '4:2'"),
        ({"method": "wanda"}, "method 'wanda' needs 'labelled_batches'"),
    ],
)
def test_bad_arguments_are_reported(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        prune_transform_pass(one_layer([[1.0, 2.0]]), options)
