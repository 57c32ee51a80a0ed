"""The passes that add metadata to nodes, and the one that checks it."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from chop.ir import MaseGraph
from chop.passes.base import PASSES
from chop.passes.graph import (
    init_metadata_analysis_pass,
    quantize_transform_pass,
    verify_common_metadata_analysis_pass,
)
from samples import LAB_CONFIG, annotated


class Joins(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.cat(x.chunk(2, 1))


def test_a_list_returned_by_another_node_is_accepted() -> None:
    graph = annotated(Joins(), x=torch.randn(2, 4))
    assert verify_common_metadata_analysis_pass(graph)[1] == {"num_nodes": 4}
    graph, _ = quantize_transform_pass(graph, {"by": "type", "cat": {"config": LAB_CONFIG}})
    assert verify_common_metadata_analysis_pass(graph)[1] == {"num_nodes": 4}
    assert graph.model(torch.ones(2, 4)).equal(torch.ones(4, 2))


def test_all_spellings_of_arithmetic_are_known() -> None:
    class Arithmetic(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            y = torch.divide(x, 2.0).multiply(3).true_divide(2).subtract(x)
            return y.divide(x).multiply_(2).subtract_(1)

    metas = annotated(Arithmetic(), x=torch.ones(3)).metas()
    assert [meta.mase_op for meta in metas[1:-1]] == ["div", "mul", "div", "sub", "div", "mul", "sub"]


@pytest.mark.parametrize("name", [name for name in PASSES if name != "load_mase_graph"])
def test_every_pass_refuses_a_model_that_is_not_a_graph(name: str) -> None:
    with pytest.raises(ValueError, match=r"needs a MaseGraph, got Joins; create one with MaseGraph\(model\)"):
        PASSES[name](Joins(), None)


def test_arguments_that_are_not_a_dict_are_refused() -> None:
    graph = MaseGraph(Joins())
    with pytest.raises(ValueError, match=r"init_metadata_analysis_pass: must be a dict of options, got 'x'"):
        init_metadata_analysis_pass(graph, "x")
    with pytest.raises(ValueError, match=r"quantize_transform_pass: must be a preset or a dict such as .* got 3"):
        quantize_transform_pass(graph, 3)
