"""Graphs that methods for low bits have changed, exported to every target and proven there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from exporting_samples import IMAGES, TOKENS, Block, cnn, config_of, quantized
from torch import nn

from chop.exporting import export_graph
from chop.ir import MaseGraph
from chop.passes import PASSES
from chop.passes.graph import load_mase_graph_interface_pass, save_mase_graph_interface_pass

pytestmark = pytest.mark.slow

METHODS: dict[str, dict[str, Any]] = {
    "adaround": {"iterations": 20},
    "clip": {},
    "correct_bias": {},
    "gptq": {},
    "prune": {},
    "recover_accuracy": {},
    "rotate": {},
    "smooth": {},
}
"""Each method with the arguments that it needs here, besides data."""
TARGETS = ("onnx", "qonnx", "safetensors")
STATIC = config_of("integer", scale="float") | {"weight_width": 4, "weight_granularity": "channel"}
"""4-bit weights with a scale per channel, 8-bit activations with a scale that is calibrated."""


def changed(graph: MaseGraph, method: str, batch: dict[str, torch.Tensor]) -> MaseGraph:
    """Return a graph that was changed by a method, with calibrated scales of its activations."""
    data: dict[str, Any] = {} if method in ("prune", "rotate") else {"input_generator": [batch]}
    graph, _ = PASSES[method](graph, {**data, **METHODS[method]})
    graph, _ = PASSES["calibrate"](graph, {"input_generator": [batch]})
    graph.model.eval()
    return graph


@pytest.mark.parametrize("method", METHODS)
def test_networks_after_each_method_are_exported_to_every_target(method: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 16), nn.ReLU(), nn.Linear(16, 5)).eval()
    batch = {"input": torch.randn(64, 16)}
    graph = changed(quantized(model, STATIC, **batch), method, batch)
    for target in TARGETS:
        exported = export_graph(graph, tmp_path / target, target, [batch])
        assert exported.proof.num_outputs == 64


@pytest.mark.parametrize("method", ["gptq", "prune"])
def test_convolutional_networks_after_a_method_are_exported_to_every_target(method: str, tmp_path: Path) -> None:
    graph = changed(quantized(cnn(), STATIC, input=IMAGES), method, {"input": IMAGES})
    for target in TARGETS:
        assert export_graph(graph, tmp_path / target, target, [{"input": IMAGES[:8]}]).proof.num_outputs == 8


@pytest.mark.parametrize("method", ["gptq", "rotate"])
def test_transformer_blocks_after_a_method_are_exported_to_every_target(method: str, tmp_path: Path) -> None:
    torch.manual_seed(0)
    graph = changed(quantized(Block().eval(), STATIC, tokens=TOKENS), method, {"tokens": TOKENS})
    for target in TARGETS:
        assert export_graph(graph, tmp_path / target, target, [{"tokens": TOKENS[:4]}]).proof.num_outputs == 4


def test_calibrated_scales_of_functions_are_constants_of_the_file(tmp_path: Path) -> None:
    import onnx

    class Sum(nn.Module):
        def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return x + y

    batch = {"x": torch.tensor([[1.0, -2.0]]), "y": torch.tensor([[0.5, 127.0]])}
    graph, _ = PASSES["calibrate"](
        quantized(Sum(), config_of("integer", scale="float"), **batch), {"input_generator": [batch]}
    )
    export_graph(graph, tmp_path / "sum.onnx", "onnx", [batch])
    model = onnx.load(tmp_path / "sum.onnx")
    assert {node.op_type for node in model.graph.node} <= {"QuantizeLinear", "DequantizeLinear", "Add", "Identity"}
    save_mase_graph_interface_pass(graph, tmp_path / "saved")
    loaded, _ = load_mase_graph_interface_pass(None, tmp_path / "saved")
    beyond = {"x": torch.tensor([[3.0, 0.3]]), "y": torch.tensor([[200.0, 0.4]])}
    # 3 saturates at 2 = 127 steps of 2/127, and 200 at 127 steps of 1; 0.3 is 19.05 steps.
    expected = torch.tensor([[2.0 + 127.0, 19 * (2 / 127) + 0.0]])
    for each in (graph, loaded):
        assert torch.allclose(each.model(**beyond), expected, atol=1e-6)
