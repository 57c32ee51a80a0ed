"""Learned steps of functions: trained, copied, saved, calibrated, exported and turned into integers."""

from __future__ import annotations

import copy
import math
import pickle
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from chop.config import TrainConfig
from chop.exporting import export_graph
from chop.hardware.prepare import prepare
from chop.ir import MaseGraph
from chop.passes.graph import (
    calibrate_transform_pass,
    load_mase_graph_interface_pass,
    quantize_transform_pass,
    save_mase_graph_interface_pass,
)
from chop.training.optimizer import make_optimizer
from samples import annotated

ROWS = torch.randn(32, 6, generator=torch.Generator().manual_seed(0))
STEPS = ["add_data_in_1_scale", "add_data_in_scale", "relu_data_in_scale"]


class Residual(nn.Module):
    """An addition and a ReLU that are functions."""

    def __init__(self) -> None:
        super().__init__()
        self.a = nn.Linear(6, 6)

    def forward(self, input: Tensor) -> Tensor:
        return torch.relu(self.a(input) + input)


def quantized(scale: str = "learned", **options: Any) -> MaseGraph:
    torch.manual_seed(0)
    config = {"name": "integer", "data_in_width": 4, "data_in_scale": scale, **options}
    choices = {op: {"config": config} for op in ("add", "relu", "linear")}
    return quantize_transform_pass(annotated(Residual(), input=ROWS), {"by": "type", **choices})[0]


def steps(graph: MaseGraph) -> dict[str, float]:
    return {name: float(each.detach()) for name, each in graph.model.named_parameters(recurse=False)}


def trained(graph: MaseGraph) -> Tensor:
    """Train all learned steps for a few steps, and return the results."""
    config = TrainConfig(model="", dataset="", learning_rate=0.05, training_optimizer="adam")
    optimizer = make_optimizer(config, graph.model)
    for _ in range(5):
        graph.model.train()(ROWS).square().sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    return results(graph)


def results(graph: MaseGraph) -> Tensor:
    with torch.no_grad():
        found: Tensor = graph.model.eval()(ROWS)
    return found


def test_the_gradient_of_a_step_is_that_of_the_paper() -> None:
    class Relu(nn.Module):
        def forward(self, input: Tensor) -> Tensor:
            return torch.relu(input)

    x = torch.tensor([[0.3, -0.9, 1.1, 9.0], [0.24, 2.0, -7.0, 0.6]])
    config = {"name": "integer", "data_in_width": 4, "data_in_scale": "learned"}
    graph, _ = quantize_transform_pass(annotated(Relu(), input=x), {"by": "type", "relu": {"config": config}})
    step = graph.model.get_parameter("relu_data_in_scale")
    with torch.no_grad():
        step.fill_(0.5)
    graph.model(x).sum().backward()
    # Values over the step: 0.6, 2.2, 4 and 1.2 are inside, 18 is above 7; results of 0 or less have no gradient.
    expected = (1 - 0.6) + (2 - 2.2) + 7 + (4 - 4) + (1 - 1.2)
    assert step.grad is not None
    # Divided by the square root of features times the largest integer: 4 features, not 8 values.
    assert step.grad.item() == pytest.approx(expected / math.sqrt(4 * 7), rel=1e-5)


@pytest.mark.slow
def test_steps_are_trained_copied_pickled_and_removed() -> None:
    graph = quantized()
    before, keys = steps(graph), list(Residual().state_dict())
    assert sorted(before) == STEPS
    expected = trained(graph)
    assert all(steps(graph)[name] != before[name] for name in STEPS)
    for other in (copy.deepcopy(graph), pickle.loads(pickle.dumps(graph))):
        assert results(other).equal(expected)
        after = trained(other)
        assert not after.equal(expected)
        assert results(graph).equal(expected), "a copy has its own steps"
    again = quantized()
    again.model.load_state_dict(graph.model.state_dict())
    assert results(again).equal(expected)
    fixed = {"name": "integer", "data_in_width": 8}
    choices = {op: {"config": fixed} for op in ("add", "relu", "linear")}
    graph, _ = quantize_transform_pass(graph, {"by": "type", **choices})
    assert list(graph.model.state_dict()) == keys


@pytest.mark.slow
def test_steps_are_saved_and_loaded(tmp_path: Path) -> None:
    graph = quantized()
    expected = trained(graph)
    save_mase_graph_interface_pass(graph, {"save_dir": tmp_path / "graph"})
    alone, _ = load_mase_graph_interface_pass(None, {"load_dir": tmp_path / "graph"})
    into = [quantized("power_of_two"), quantized("learned", data_in_width=6), annotated(Residual(), input=ROWS)]
    loaded = [load_mase_graph_interface_pass(each, {"load_dir": tmp_path / "graph"})[0] for each in into]
    for each in (alone, *loaded):
        assert results(each).equal(expected)
        assert sorted(steps(each)) == STEPS
        assert not trained(each).equal(expected)
    save_mase_graph_interface_pass(quantized("power_of_two"), {"save_dir": tmp_path / "fixed"})
    graph, _ = load_mase_graph_interface_pass(graph, {"load_dir": tmp_path / "fixed"})
    assert steps(graph) == {}


def test_calibration_sets_the_first_steps() -> None:
    graph = quantized()
    calibrate_transform_pass(graph, {"input_generator": [{"input": ROWS}]})
    assert steps(graph)["add_data_in_1_scale"] == pytest.approx(ROWS.abs().max().item() / 7)


def test_hardware_computes_the_same_with_learned_powers_of_two() -> None:
    graph = quantized("learned_power_of_two")
    trained(graph)
    assert prepare(graph).num_differences(ROWS.numpy()) == 0


@pytest.mark.slow
@pytest.mark.parametrize("target", ["onnx", "safetensors"])
def test_learned_steps_are_exported(target: str, tmp_path: Path) -> None:
    pytest.importorskip("onnx")
    graph = quantized()
    trained(graph)
    assert export_graph(graph, tmp_path / "model", target, [{"input": ROWS}]).path.exists()
