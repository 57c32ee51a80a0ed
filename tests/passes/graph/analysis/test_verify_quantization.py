"""What verification checks: everything that is rounded, when the layer computes with it."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from chop.formats.integer import Integer
from chop.ir import MaseGraph
from chop.passes.graph import (
    add_common_metadata_analysis_pass,
    init_metadata_analysis_pass,
    quantize_transform_pass,
    verify_quantization_analysis_pass,
)
from samples import LAB_CONFIG, LAB_PASS_ARGS, annotated, tiny_graph


def quantized(graph: MaseGraph, **extra: Any) -> MaseGraph:
    return quantize_transform_pass(graph, {"by": "type", "default": {"config": {**LAB_CONFIG, **extra}}})[0]


@pytest.mark.parametrize(
    "config",
    [
        *({"name": "integer", "data_in_scale": "float", "data_in_rounding": r} for r in ("floor", "towards_zero")),
        {"name": "integer", "data_in_scale": "float", "data_in_is_signed": False},
        *(
            {"name": "nvfp4", "data_in_rounding": r}
            for r in ("nearest_even", "floor", "towards_zero", "stochastic")
        ),
        {"name": "mxfp", "data_in_scale_rule": "even", "data_in_rounding": "towards_zero"},
        {"name": "fp8", "data_in_scale": "float", "data_in_granularity": "row", "data_in_rounding": "floor"},
    ],
)
def test_scales_from_data_are_accepted(config: dict[str, Any]) -> None:
    layer = nn.Linear(64, 48)
    with torch.no_grad():
        layer.weight.mul_(torch.randn(48, 1).mul(4).exp())  # rows of very different sizes
        layer.weight[0, 0] = -2 * layer.weight.abs().max()
    graph = annotated(nn.Sequential(layer), input=torch.randn(16, 64).mul(3).exp())
    graph, _ = quantize_transform_pass(graph, {"by": "type", "default": {"config": config}})
    _, info = verify_quantization_analysis_pass(graph)
    assert set(info["_0"]) == {"data_in_0", "weight", "bias"}


class Sums(nn.Module):
    """Inputs that are lists, keyword arguments or numbers."""

    def forward(self, tensors: list[Tensor], factor: int, *rest: Tensor) -> Tensor:
        return (tensors[0] + tensors[1]) * factor + rest[0]


def test_nan_is_accepted() -> None:
    x = torch.tensor([[1.0, float("nan"), 0.5]])
    _, info = verify_quantization_analysis_pass(quantized(annotated(nn.Sequential(nn.ReLU()), input=x)))
    assert info["_0"]["data_in_0"]["max_error"] == 0
    assert math.isinf(info["_0"]["data_in_0"]["sqnr_db"])


def test_the_annotating_inputs_may_be_of_any_kind() -> None:
    x = torch.randn(2, 4)
    graph = quantized(annotated(Sums(), tensors=[x, x + 1], factor=2, rest=[x]))
    _, info = verify_quantization_analysis_pass(graph)
    assert list(info) == ["add", "mul", "add_1"]
    _, again = verify_quantization_analysis_pass(
        graph, {"dummy_in": {"tensors": [x, x + 1], "factor": 2, "rest": [x]}}
    )
    assert again == info


def test_a_batch_is_required_if_the_graph_keeps_no_values() -> None:
    graph, _ = init_metadata_analysis_pass(MaseGraph(nn.Sequential(nn.ReLU())))
    x = {"input": torch.randn(2, 4)}
    graph, _ = add_common_metadata_analysis_pass(graph, {"dummy_in": x, "add_value": False})
    with pytest.raises(ValueError, match="pass a batch as 'dummy_in'"):
        verify_quantization_analysis_pass(quantized(graph))
    assert list(verify_quantization_analysis_pass(graph, {"dummy_in": x})[1]) == ["_0"]


def test_rounded_results_are_checked_too() -> None:
    class Both(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(4, 4)

        def forward(self, x: Tensor) -> Tensor:
            return F.gelu(self.layer(x))

    graph = quantized(annotated(Both(), x=torch.randn(2, 4)), data_out_width=8, data_out_frac_width=2)
    _, info = verify_quantization_analysis_pass(graph)
    assert list(info["layer"]) == ["data_in_0", "weight", "bias", "data_out_0"]
    assert list(info["gelu"]) == ["data_in_0", "data_out_0"]
    assert info["layer"]["data_out_0"]["max_error"] <= 1 / 8
    graph.metas()[1].results["data_out_0"].format = Integer(8, 0)
    with pytest.raises(ValueError, match=r"node 'layer': 'data_out_0' holds .* which .* cannot represent"):
        verify_quantization_analysis_pass(graph)


def test_a_layer_that_does_not_round_is_found() -> None:
    graph, _ = quantize_transform_pass(tiny_graph(), LAB_PASS_ARGS)
    layer: Any = graph.modules["seq_blocks.2"]
    layer.forward = lambda x: F.linear(x, layer.weight, layer.bias)
    with pytest.raises(ValueError, match=r"node 'seq_blocks_2': 'data_in_0' is not rounded to integer"):
        verify_quantization_analysis_pass(graph)


def test_the_layer_stays_unchanged() -> None:
    graph, _ = quantize_transform_pass(tiny_graph(), LAB_PASS_ARGS)
    layer: Any = graph.modules["seq_blocks.2"]
    formats = layer.formats
    verify_quantization_analysis_pass(graph)
    assert layer.formats is formats


def test_a_large_input_is_checked_in_one_piece() -> None:
    """A layer rounds an input of 2**19 or more numbers in slices."""
    x = torch.full((512, 1024), 0.3)
    _, info = verify_quantization_analysis_pass(quantized(annotated(nn.Sequential(nn.Linear(1024, 1)), input=x)))
    assert info["_0"]["data_in_0"]["max_error"] == pytest.approx(0.3125 - 0.3, abs=1e-6)
