"""Quantising a model that torch.fx cannot trace."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from chop.passes.graph import quantize_transform_pass
from chop.passes.module import quantize_module_transform_pass
from samples import LAB_CONFIG, LAB_PASS_ARGS, Tiny, annotated


class Decides(nn.Module):
    """Control flow that depends on data."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4, bias=False)
        self.shared = self.a

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.a(x) if x.sum() > 0 else self.shared(self.b(x))
        return y


def test_layers_are_quantised_without_tracing() -> None:
    model, keys = Decides(), list(Decides().state_dict())
    _, info = quantize_module_transform_pass(model, LAB_PASS_ARGS)  # in place
    assert info["quantized"] == ["a", "b", "shared"]
    assert [type(m).__name__ for m in (model.a, model.b)] == ["LinearInteger", "LinearInteger"]
    assert model.shared is model.a
    assert list(model.state_dict()) == keys
    assert model(torch.randn(2, 4)).shape == (2, 4)


def test_the_result_equals_that_of_the_graph_pass() -> None:
    model, x = Tiny(), torch.randn(8, 16)
    graph, _ = quantize_transform_pass(annotated(model, x=x), LAB_PASS_ARGS)
    by_module, _ = quantize_module_transform_pass(model, LAB_PASS_ARGS)
    assert by_module(x).equal(graph.model(x))


def test_by_path_and_by_pattern() -> None:
    config = {"config": LAB_CONFIG}
    assert quantize_module_transform_pass(Tiny(), {"by": "name", "seq_blocks.2": config})[1]["quantized"] == [
        "seq_blocks.2"
    ]
    found = quantize_module_transform_pass(Tiny(), {"by": "regex_name", r"seq_blocks\.[13]": config})
    assert found[1]["quantized"] == ["seq_blocks.1", "seq_blocks.3"]


def test_a_layer_that_does_not_exist_is_reported() -> None:
    with pytest.raises(ValueError, match=r"the model has no layer 'seq_blocks.9'; did you mean 'seq_blocks\.\d'"):
        quantize_module_transform_pass(Tiny(), {"by": "name", "seq_blocks.9": {"config": LAB_CONFIG}})


def test_one_layer_cannot_be_quantised_in_two_ways() -> None:
    with pytest.raises(ValueError, match="'a' and 'shared' are the same layer but have different configs"):
        quantize_module_transform_pass(Decides(), {"by": "name", "a": {"config": LAB_CONFIG}})


def test_layers_inside_attention_are_not_quantised() -> None:
    model = nn.Sequential(nn.TransformerEncoderLayer(8, 2, batch_first=True), nn.Linear(8, 8))
    assert quantize_module_transform_pass(model, LAB_PASS_ARGS)[1]["quantized"] == ["1"]


def test_formats_from_data_and_a_model_that_is_a_layer_are_refused() -> None:
    auto = {"name": "integer", "data_in_frac_width": "auto"}
    with pytest.raises(ValueError, match="the format of 'data_in_0' depends on data, which needs a graph"):
        quantize_module_transform_pass(Tiny(), {"by": "type", "linear": {"config": auto}})
    with pytest.raises(ValueError, match=r"the model is a single layer \(Linear\)"):
        quantize_module_transform_pass(nn.Linear(2, 2), LAB_PASS_ARGS)
