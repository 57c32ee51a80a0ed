"""Elements and bits of weights and inputs, computed by hand."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from chop.cost import Storage, input_storage, weight_storage
from chop.formats.integer import Integer
from chop.ir import MaseGraph, NodeMeta
from chop.passes.graph import add_common_metadata_analysis_pass, init_metadata_analysis_pass


def annotated(model: nn.Module, x: Tensor) -> list[NodeMeta]:
    graph, _ = init_metadata_analysis_pass(MaseGraph(model), None)
    name = next(str(node.target) for node in graph.fx_graph.nodes)
    return add_common_metadata_analysis_pass(graph, {"dummy_in": {name: x}})[0].annotated_metas()


class Functional(nn.Module):
    """The same weight in three calls: as it is, in another layer, and transposed."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(4, 4))
        self.tied = nn.Linear(4, 4, bias=False)
        self.tied.weight = self.weight

    def forward(self, x: Tensor) -> Tensor:
        x = F.linear(x, self.weight)
        x = self.tied(x)
        x = x @ self.weight.t()
        return x @ self.weight.transpose(0, 1)


def test_a_weight_counts_once_however_it_is_used() -> None:
    metas = annotated(Functional(), torch.randn(3, 4))
    assert weight_storage(metas) == Storage(16, 16 * 32)
    assert input_storage(metas) == Storage(4 * 12, 4 * 12 * 32)


def test_a_weight_in_two_formats_counts_twice() -> None:
    metas = annotated(Functional(), torch.randn(3, 4))
    linear = next(meta for meta in metas if meta.node.op == "call_function")
    linear.args["weight"].format = Integer(8, 4)
    assert weight_storage(metas) == Storage(32, 16 * 8 + 16 * 32)


class Attention(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return (x @ x.transpose(-1, -2)) @ x


def test_factors_that_depend_on_the_input_are_inputs() -> None:
    metas = annotated(Attention(), torch.randn(3, 4))
    assert weight_storage(metas) == Storage(0, 0)
    assert weight_storage(metas).average == 0.0
    assert input_storage(metas).elements == (12 + 12) + (9 + 12)


class Masked(nn.Module):
    mask: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(5, 4))
        self.register_buffer("mask", torch.ones(5, 4))

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(x, self.weight * self.mask)


def test_a_weight_may_be_computed_from_parameters() -> None:
    metas = annotated(Masked(), torch.randn(3, 4))
    assert weight_storage(metas).elements == 20  # of the linear layer; the product's factors are its inputs
    assert input_storage(metas).elements == 20 + 20 + 12


def test_indices_and_running_statistics_do_not_count() -> None:
    metas = annotated(nn.Sequential(nn.Embedding(10, 4), nn.BatchNorm1d(3)), torch.tensor([[1, 2, 3]]))
    assert weight_storage(metas).elements == 40 + 3 + 3
    assert input_storage(metas).elements == 12


def test_each_concatenated_tensor_is_an_input() -> None:
    class Join(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return torch.cat([x, x, x])

    assert input_storage(annotated(Join(), torch.randn(3, 4))).elements == 36
