"""Average bits of complete networks."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from chop.ir import MaseGraph
from chop.passes.graph import (
    add_common_metadata_analysis_pass,
    calculate_avg_bits_mg_analysis_pass,
    init_metadata_analysis_pass,
    quantize_transform_pass,
)


def annotated(model: nn.Module, x: Tensor) -> MaseGraph:
    graph, _ = init_metadata_analysis_pass(MaseGraph(model), None)
    name = next(str(node.target) for node in graph.fx_graph.nodes)
    return add_common_metadata_analysis_pass(graph, {"dummy_in": {name: x}})[0]


def quantized(graph: MaseGraph, op: str, **config: Any) -> MaseGraph:
    return quantize_transform_pass(graph, {"by": "type", op: {"config": config}})[0]


def jsc_tiny() -> MaseGraph:
    layers = (nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 5), nn.ReLU())
    return annotated(nn.Sequential(*layers), torch.randn(8, 16))


def test_tensors_that_are_not_quantised_have_32_bits() -> None:
    assert calculate_avg_bits_mg_analysis_pass(jsc_tiny())[1] == {"w_avg_bit": 32.0, "data_avg_bit": 32.0}


def test_fraction_bits_are_part_of_the_width() -> None:
    graph = quantized(jsc_tiny(), "linear", name="integer", data_in_width=8, data_in_frac_width=4)
    info = calculate_avg_bits_mg_analysis_pass(graph)[1]
    # Weights and biases: 85 of the linear layer, 32 of the batch norm.
    assert info["w_avg_bit"] == pytest.approx((85 * 8 + 32 * 32) / 117)
    # Inputs: 128 of the linear layer; 128 of the batch norm, 128 and 40 of the relus.
    assert info["data_avg_bit"] == pytest.approx((128 * 8 + 296 * 32) / 424)


def test_only_quantised_nodes_have_fewer_bits() -> None:
    graph = annotated(nn.Sequential(nn.Linear(16, 5)), torch.randn(8, 16))
    graph = quantized(graph, "linear", name="integer", data_in_width=6, weight_width=4, bias_width=16)
    info = calculate_avg_bits_mg_analysis_pass(graph)[1]
    assert info == {"w_avg_bit": (80 * 4 + 5 * 16) / 85, "data_avg_bit": 6.0}


def test_shared_exponents_count() -> None:
    graph = annotated(nn.Sequential(nn.Linear(16, 5, bias=False)), torch.randn(8, 16))
    graph = quantized(graph, "linear", name="block_fp", data_in_width=8, data_in_block_size=16)
    assert calculate_avg_bits_mg_analysis_pass(graph)[1] == {"w_avg_bit": 8.5, "data_avg_bit": 8.5}


class Twice(nn.Module):
    """One layer and one weight, each called twice, and a layer called once."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4, bias=False)
        self.weight = nn.Parameter(torch.randn(4, 4))
        self.norm = nn.BatchNorm1d(4)

    def forward(self, x: Tensor) -> Tensor:
        x = F.linear(F.linear(x, self.weight), self.weight)
        x = self.norm(self.layer(self.layer(x)))
        return x


def test_a_weight_that_is_used_twice_counts_once() -> None:
    graph = quantized(annotated(Twice(), torch.randn(8, 4)), "linear", name="integer", data_in_width=8)
    info = calculate_avg_bits_mg_analysis_pass(graph)[1]
    assert info["w_avg_bit"] == pytest.approx((32 * 8 + 8 * 32) / 40)
    assert info["data_avg_bit"] == pytest.approx((4 * 32 * 8 + 32 * 32) / 160)


def test_the_average_without_elements_is_zero() -> None:
    info = calculate_avg_bits_mg_analysis_pass(annotated(nn.Sequential(nn.Flatten()), torch.ones(2, 2)))[1]
    assert info == {"w_avg_bit": 0.0, "data_avg_bit": 0.0}
