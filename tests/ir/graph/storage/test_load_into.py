"""Loading into a graph of the user's model: completely, or not at all."""

from __future__ import annotations

import copy
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from chop.ir import MaseGraph
from chop.passes.graph import (
    load_mase_graph_interface_pass,
    quantize_transform_pass,
    save_mase_graph_interface_pass,
    verify_common_metadata_analysis_pass,
    verify_quantization_analysis_pass,
)
from samples import annotated

QUANTIZE_ALL = {"by": "type", "default": {"config": {"name": "integer"}}}


class Stateful(nn.Module):
    """A layer, a function, a tensor method, and a buffer that is not in the state dict."""

    offset: Tensor

    def __init__(self, width: int = 4) -> None:
        super().__init__()
        self.layer = nn.Linear(4, width)
        self.register_buffer("offset", torch.zeros(width), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = F.relu(self.layer(x)).sigmoid() + self.offset
        return y


def graph_of(model: nn.Module, *, quantized: bool) -> MaseGraph:
    graph = annotated(model, x=torch.randn(2, 4))
    return quantize_transform_pass(graph, QUANTIZE_ALL)[0] if quantized else graph


def load(path: Path, graph: MaseGraph) -> MaseGraph:
    return load_mase_graph_interface_pass(graph, path)[0]


@pytest.mark.parametrize("before", [True, False], ids=["quantised", "float"])
@pytest.mark.parametrize("after", [True, False], ids=["into quantised", "into float"])
def test_saved_formats_are_loaded(before: bool, after: bool, tmp_path: Path) -> None:
    graph, x = graph_of(Stateful(), quantized=before), torch.randn(2, 4)
    save_mase_graph_interface_pass(graph, tmp_path)
    again = load(tmp_path, graph_of(Stateful(), quantized=after))
    assert again.model(x).equal(graph.model(x))
    assert [(n.op, str(n.target)) for n in again.fx_graph.nodes if not callable(n.target)] == [
        (n.op, str(n.target)) for n in graph.fx_graph.nodes if not callable(n.target)
    ]
    assert type(again.modules["layer"]) is type(graph.modules["layer"])
    verify_common_metadata_analysis_pass(again)


def test_a_save_without_metadata_updates_the_formats_only(tmp_path: Path) -> None:
    save_mase_graph_interface_pass(MaseGraph(Stateful()), tmp_path)
    again = load(tmp_path, graph_of(Stateful(), quantized=True))
    assert again.metas()[1].args["weight"].format.name == "float"
    verify_common_metadata_analysis_pass(again)


def test_scales_are_loaded_with_the_formats(tmp_path: Path) -> None:
    learned = {"name": "integer", "data_in_scale": "learned", "weight_scale": "learned", "bias_scale": "float"}
    pass_args = {"by": "type", "linear": {"config": learned}}
    graph, x = quantize_transform_pass(graph_of(Stateful(), quantized=False), pass_args)[0], torch.randn(2, 4)
    with torch.no_grad():
        graph.model.get_parameter("layer.weight_scale").mul_(3)
    save_mase_graph_interface_pass(graph, tmp_path / "learned")
    save_mase_graph_interface_pass(graph_of(Stateful(), quantized=False), tmp_path / "float")
    again = load(tmp_path / "learned", MaseGraph(Stateful()))
    assert again.model(x).equal(graph.model(x))
    assert list(again.model.state_dict()) == list(graph.model.state_dict())
    verify_quantization_analysis_pass(again, {"dummy_in": {"x": x}})
    again = load(tmp_path / "float", again)
    assert list(again.model.state_dict()) == ["layer.weight", "layer.bias"]


def test_buffers_modes_and_requires_grad_are_loaded(tmp_path: Path) -> None:
    model = Stateful()
    model.offset.fill_(7)
    model.layer.weight.requires_grad_(False)
    model.layer.eval()
    save_mase_graph_interface_pass(MaseGraph(model), tmp_path)
    target = Stateful()
    again = load(tmp_path, MaseGraph(target))
    assert target.offset.equal(model.offset)  # the graph shares its model's tensors
    assert [p.requires_grad for p in again.model.parameters()] == [False, True]
    assert {path: m.training for path, m in again.modules.items()} == {"": True, "layer": False}


@pytest.mark.parametrize("other", [Stateful(5), Stateful().double(), nn.Sequential(nn.Linear(4, 4))])
def test_a_save_that_does_not_fit_changes_nothing(other: nn.Module, tmp_path: Path) -> None:
    save_mase_graph_interface_pass(graph_of(Stateful(), quantized=True), tmp_path)
    graph = MaseGraph(other)
    before = copy.deepcopy(graph.model.state_dict())
    with pytest.raises(ValueError, match=r"its weights do not fit the graph: 'offset' is|a different model"):
        load(tmp_path, graph)
    assert "Integer" not in repr(graph.model)
    assert not any("mase" in node.meta for node in graph.fx_graph.nodes)
    assert all(value.equal(before[key]) for key, value in graph.model.state_dict().items())


def test_corrupt_metadata_changes_nothing(tmp_path: Path) -> None:
    save_mase_graph_interface_pass(graph_of(Stateful(), quantized=True), tmp_path)
    path = tmp_path / "graph.json"
    path.write_text(path.read_text().replace('"annotated"', '"annotatde"'))
    graph = MaseGraph(Stateful())
    with pytest.raises(ValueError, match="is corrupt"):
        load(tmp_path, graph)
    assert type(graph.modules["layer"]) is nn.Linear
