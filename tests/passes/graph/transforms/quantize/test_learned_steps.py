"""Graphs with learned steps: saved, loaded, exported and turned into integers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from chop.exporting import export_graph
from chop.hardware.prepare import prepare
from chop.ir import MaseGraph
from chop.passes.graph import (
    add_common_metadata_analysis_pass,
    calibrate_transform_pass,
    init_metadata_analysis_pass,
    load_mase_graph_interface_pass,
    quantize_transform_pass,
    save_mase_graph_interface_pass,
)

ROWS = torch.randn(32, 8, generator=torch.Generator().manual_seed(0))


def quantized(scale: str, granularity: str = "channel", **options: Any) -> MaseGraph:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 6), nn.ReLU(), nn.Linear(6, 3))
    graph, _ = init_metadata_analysis_pass(MaseGraph(model))
    graph, _ = add_common_metadata_analysis_pass(graph, {"dummy_in": {"input": ROWS}})
    config = {"name": "integer", "data_in_width": 4, "data_in_scale": scale, "weight_granularity": granularity}
    return quantize_transform_pass(graph, {"by": "type", "linear": {"config": {**config, **options}}})[0]


def trained(graph: MaseGraph) -> Tensor:
    """Train a few steps, and return the results."""
    optimizer = torch.optim.Adam(graph.model.parameters(), lr=0.01)
    for _ in range(5):
        graph.model(ROWS).square().sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    with torch.no_grad():
        result: Tensor = graph.model.eval()(ROWS)
    return result


@pytest.mark.slow
def test_steps_of_channels_are_saved_and_loaded(tmp_path: Path) -> None:
    graph = quantized("learned")
    expected = trained(graph)
    assert graph.modules["0"].get_parameter("weight_scale").shape == (6, 1)
    assert graph.modules["0"].get_parameter("data_in_scale").shape == ()
    save_mase_graph_interface_pass(graph, {"save_dir": tmp_path / "graph"})
    alone, _ = load_mase_graph_interface_pass(None, {"load_dir": tmp_path / "graph"})
    into, _ = load_mase_graph_interface_pass(quantized("power_of_two", "tensor"), {"load_dir": tmp_path / "graph"})
    for loaded in (alone, into):
        with torch.no_grad():
            assert loaded.model.eval()(ROWS).equal(expected)
        assert loaded.modules["0"].get_parameter("weight_scale").requires_grad


@pytest.mark.parametrize("granularity", ["tensor", "channel"])
def test_hardware_computes_the_same_with_learned_powers_of_two(granularity: str) -> None:
    graph = quantized("learned_power_of_two", granularity)
    trained(graph)
    assert prepare(graph).num_differences(ROWS.numpy()) == 0


def test_hardware_refuses_other_learned_steps() -> None:
    with pytest.raises(
        ValueError, match="is not a power of two, which hardware needs; use scale 'power_of_two' or"
    ):
        prepare(quantized("learned"))


@pytest.mark.slow
@pytest.mark.parametrize("scale", ["learned", "learned_power_of_two"])
@pytest.mark.parametrize("target", ["onnx", "qonnx", "safetensors"])
def test_learned_steps_are_exported(scale: str, target: str, tmp_path: Path) -> None:
    pytest.importorskip("qonnx" if target == "qonnx" else "onnx")
    graph = quantized(scale)
    trained(graph)
    exported = export_graph(graph, tmp_path / "model", target, [{"input": ROWS}])  # proven by running the file
    assert exported.path.exists()


def test_calibration_sets_the_first_steps() -> None:
    graph = quantized("learned", "tensor", weight_granularity="tensor")
    calibrate_transform_pass(graph, {"input_generator": [{"input": ROWS}]})
    layer = graph.modules["0"]
    assert layer.get_parameter("data_in_scale").item() == pytest.approx(ROWS.abs().max().item() / 7)
    assert layer.get_parameter("data_in_scale").requires_grad


def test_the_first_step_needs_values() -> None:
    graph, _ = init_metadata_analysis_pass(MaseGraph(nn.Sequential(nn.Linear(8, 6))))
    graph, _ = add_common_metadata_analysis_pass(graph, {"dummy_in": {"input": ROWS}, "add_value": False})
    config = {"name": "integer", "data_in_width": 4, "data_in_scale": "learned"}
    with pytest.raises(
        ValueError, match="the first scale of 'data_in_0' is chosen from data, but the graph keeps no"
    ):
        quantize_transform_pass(graph, {"by": "type", "linear": {"config": config}})
    ranges = {"dummy_in": {"input": ROWS}, "add_value": False, "add_range": True}
    graph, _ = add_common_metadata_analysis_pass(graph, ranges)
    graph, _ = quantize_transform_pass(graph, {"by": "type", "linear": {"config": config}})
    assert graph.modules["0"].get_parameter("data_in_scale").item() == pytest.approx(ROWS.abs().max().item() / 7)
