"""Saving and loading graphs."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from chop.formats import FORMATS
from chop.ir import MaseGraph
from chop.passes.graph import (
    load_mase_graph_interface_pass,
    load_node_meta_param_interface_pass,
    quantize_transform_pass,
    save_mase_graph_interface_pass,
    save_node_meta_param_interface_pass,
    verify_common_metadata_analysis_pass,
)
from samples import Mixed, annotated, tiny_graph


def load(path: Path, graph: MaseGraph | None = None) -> MaseGraph:
    return load_mase_graph_interface_pass(graph, {"load_dir": str(path)})[0]


def quantized_tiny(name: str = "integer") -> MaseGraph:
    default = {"config": {"name": name}}
    return quantize_transform_pass(tiny_graph(), {"by": "type", "default": default})[0]


@pytest.mark.parametrize("name", FORMATS)
def test_outputs_after_loading_are_bit_identical(name: str, tmp_path: Path) -> None:
    graph, x = quantized_tiny(name), torch.randn(8, 16)
    save_mase_graph_interface_pass(graph, tmp_path / "saved")
    again = load(tmp_path / "saved")
    assert again.model(x).equal(graph.model(x))  # in training mode, with in-place ReLUs
    assert again.model.state_dict().keys() == graph.model.state_dict().keys()
    assert [type(m).__name__ for m in again.model.modules()] == [type(m).__name__ for m in graph.model.modules()]
    verify_common_metadata_analysis_pass(again)


def test_a_loaded_graph_can_be_trained_saved_and_quantised_again(tmp_path: Path) -> None:
    save_mase_graph_interface_pass(quantized_tiny(), {"save_dir": tmp_path / "a"})
    graph = load(tmp_path / "a")
    assert graph.model.training
    graph.model(torch.randn(8, 16)).sum().backward()
    assert all(p.grad is not None for p in graph.model.parameters())
    graph, _ = quantize_transform_pass(
        graph, {"by": "name", "seq_blocks_2": {"config": {"name": "integer", "data_in_width": 4}}}
    )
    save_mase_graph_interface_pass(graph, {"save_dir": tmp_path / "a"})
    assert load(tmp_path / "a").metas()[3].args["weight"].format.precision == [4, 2]
    assert sorted(p.suffix for p in (tmp_path / "a").iterdir()) == [".json", ".safetensors"]


def test_functions_methods_and_notes_survive(tmp_path: Path) -> None:
    class Functions(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale = nn.Parameter(torch.rand(4))

        def forward(self, x: Tensor) -> Tensor:
            y = torch.cat([x[:, :2], x[:, 2:]], dim=1).relu() * self.scale
            return torch.matmul(y, y.transpose(0, 1)).softmax(dim=-1).view(y.size(0), -1)

    graph = annotated(Functions(), x=torch.randn(3, 4))
    graph, _ = quantize_transform_pass(
        graph, {"by": "type", "default": {"config": {"name": "block_fp", "data_in_block_size": [1, 2]}}}
    )
    graph.metas()[1].parameters["common"]["mine"] = {"a": (1, None), "b": torch.tensor([1.5, 2.0])}
    save_mase_graph_interface_pass(graph, tmp_path)
    again = load(tmp_path)
    x = torch.randn(3, 4)
    assert again.model(x).equal(graph.model(x))
    mine = again.metas()[1].parameters["common"]["mine"]
    assert mine["a"] == (1, None)
    assert mine["b"].equal(torch.tensor([1.5, 2.0]))


class Foreign(nn.Module):
    """A layer that only its own code can build, beside functions that are not in the op table."""

    class Inner(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.rand(4))

        def forward(self, x: Tensor) -> Tensor:
            return x * self.weight

    def __init__(self) -> None:
        super().__init__()
        self.inner = Foreign.Inner()
        self.linear = nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        return torch.sinc(self.linear(self.inner(x)))


def test_other_classes_need_the_users_model(tmp_path: Path) -> None:
    def traced() -> MaseGraph:
        return MaseGraph(Foreign(), leaf_modules=(Foreign.Inner,))

    graph = traced()
    save_mase_graph_interface_pass(graph, tmp_path)
    with pytest.raises(
        ValueError, match=r"module 'inner' is test_save_load.Foreign.Inner, which only the model's own code"
    ):
        load(tmp_path)
    x = torch.randn(2, 4)
    assert load(tmp_path, traced()).model(x).equal(graph.model(x))


def test_unknown_functions_need_the_users_model(tmp_path: Path) -> None:
    graph = annotated(Mixed(), x=torch.randn(3, 6))
    graph, _ = quantize_transform_pass(graph, {"by": "type", "default": {"config": {"name": "integer"}}})
    save_mase_graph_interface_pass(graph, tmp_path)
    with pytest.raises(ValueError, match="is not in the op table; load into a graph of the model itself"):
        load(tmp_path)
    again, x = load(tmp_path, MaseGraph(Mixed())), torch.randn(3, 6)
    assert again.model(x).equal(graph.model(x))
    verify_common_metadata_analysis_pass(again)


def test_shared_layers_and_tied_weights_stay_shared(tmp_path: Path) -> None:
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 4)
            self.b.weight = self.a.weight

        def forward(self, x: Tensor) -> Tensor:
            y: Tensor = self.a(self.b(self.a(x)))
            return y

    graph = annotated(Tied(), x=torch.randn(2, 4))
    save_mase_graph_interface_pass(graph, tmp_path)
    again = load(tmp_path)
    assert again.model.get_parameter("a.weight") is again.model.get_parameter("b.weight")
    assert len(list(again.model.parameters())) == 3


def test_module_names_need_not_be_identifiers(tmp_path: Path) -> None:
    class Keyed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.ModuleDict({"fc-1": nn.Linear(4, 4), "2 b": nn.ReLU()})

        def forward(self, x: Tensor) -> Tensor:
            y: Tensor = self.layers["2 b"](self.layers["fc-1"](x))
            return y

    graph, x = MaseGraph(Keyed()), torch.randn(2, 4)
    save_mase_graph_interface_pass(graph, tmp_path)
    assert load(tmp_path).model(x).equal(graph.model(x))
    graph.model.add_module('a"b', nn.ReLU())
    with pytest.raises(ValueError, match="cannot be the name of a module"):
        save_mase_graph_interface_pass(graph, tmp_path)


def test_arguments_that_cannot_be_saved_name_their_node(tmp_path: Path) -> None:
    class Odd(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x.contiguous(memory_format=torch.channels_last) + 1

    graph, x = MaseGraph(Odd()), torch.randn(1, 2, 4, 4)
    save_mase_graph_interface_pass(graph, tmp_path)
    assert load(tmp_path).model(x).equal(graph.model(x))
    graph.fx_graph.find_nodes(op="call_method", target="contiguous")[0].update_kwarg(
        "memory_format", torch.per_tensor_affine
    )
    with pytest.raises(
        ValueError, match=r"node 'contiguous' cannot be saved: its arguments contain a value of type qscheme"
    ):
        save_mase_graph_interface_pass(graph, tmp_path)


def test_notes_that_cannot_be_saved_name_their_node(tmp_path: Path) -> None:
    graph = tiny_graph()
    graph.metas()[3].parameters["common"]["args"]["weight"]["mine"] = {1, 2}
    with pytest.raises(
        ValueError, match=r"the metadata of node 'seq_blocks_2' cannot be saved: it contains a value of type set"
    ):
        save_mase_graph_interface_pass(graph, tmp_path)


def test_a_quantised_layer_that_nothing_calls_is_saved(tmp_path: Path) -> None:
    graph = quantized_tiny()
    node = graph.fx_graph.find_nodes(op="call_module", target="seq_blocks.2")[0]
    node.replace_all_uses_with(node.args[0])
    graph.fx_graph.erase_node(node)
    graph.model.recompile()
    save_mase_graph_interface_pass(graph, tmp_path)
    again = load(tmp_path)
    assert type(again.modules["seq_blocks.2"]).__name__ == "LinearInteger"
    assert again.model.state_dict().keys() == graph.model.state_dict().keys()


@pytest.mark.parametrize("where", ["a layer", "the model"])
def test_hooks_need_the_users_model(where: str, tmp_path: Path) -> None:
    def hooked() -> nn.Module:
        model = nn.Sequential(nn.Linear(4, 4))
        (model[0] if where == "a layer" else model).register_forward_hook(lambda module, inputs, y: y * 2)
        return model

    model, x = hooked(), torch.randn(2, 4)
    graph = MaseGraph(model)
    assert graph.model(x).equal(model(x))
    save_mase_graph_interface_pass(graph, tmp_path)
    with pytest.raises(ValueError, match=r"with hooks, which only the model's own code can build"):
        load(tmp_path)
    assert load(tmp_path, MaseGraph(hooked())).model(x).equal(model(x))


def test_only_the_weights_of_the_earlier_save_are_removed(tmp_path: Path) -> None:
    mine = tmp_path / "weights-best.safetensors"
    mine.write_text("mine")
    graph = tiny_graph()
    save_mase_graph_interface_pass(graph, tmp_path)
    graph.model.get_parameter("seq_blocks.2.weight").data.zero_()
    save_mase_graph_interface_pass(graph, tmp_path)
    assert mine.read_text() == "mine"
    assert len(list(tmp_path.glob("*.safetensors"))) == 2


def test_constants_that_follow_the_mode_survive(tmp_path: Path) -> None:
    class Drops(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return F.dropout(x + torch.ones(3), 0.5, self.training)

    graph, x = MaseGraph(Drops()), torch.ones(2, 3)
    save_mase_graph_interface_pass(graph, tmp_path)
    again = load(tmp_path)
    assert again.model.eval()(x).equal(x + 1)
    assert (again.model.train()(torch.ones(100, 3)) == 0).any()


def test_metadata_can_be_saved_without_the_graph(tmp_path: Path) -> None:
    graph = tiny_graph()
    graph.metas()[3].software["args"]["weight"]["stat"] = {"variance_precise": {"mean": 0.5, "count": 80}}
    save_node_meta_param_interface_pass(graph, tmp_path / "meta")
    other = tiny_graph()
    other, _ = load_node_meta_param_interface_pass(other, {"load_dir": tmp_path / "meta"})
    stat = other.metas()[3].parameters["software"]["args"]["weight"]["stat"]
    assert stat == {"variance_precise": {"mean": 0.5, "count": 80}}
    assert other.metas()[3].value("data_in_0") is not None
    with pytest.raises(ValueError, match="belongs to another graph"):
        load_node_meta_param_interface_pass(annotated(Mixed(), x=torch.randn(1, 6)), tmp_path / "meta")
    file = tmp_path / "meta" / "node_meta_param.json"
    file.write_text(file.read_text().replace('"version": 1', '"version": 7'))
    with pytest.raises(ValueError, match="has version 7, but version 1 is required"):
        load_node_meta_param_interface_pass(other, file)


def test_metadata_can_be_saved_as_toml(tmp_path: Path) -> None:
    graph, other = tiny_graph(), tiny_graph()
    graph.metas()[3].software["args"]["weight"]["stat"] = {"mean": 0.5, "best": None, "rows": [1, None]}
    save_node_meta_param_interface_pass(graph, str(tmp_path / "meta.toml"))
    assert tomllib.loads((tmp_path / "meta.toml").read_text())["version"] == 1
    other, _ = load_node_meta_param_interface_pass(other, str(tmp_path / "meta.toml"))
    stat = other.metas()[3].parameters["software"]["args"]["weight"]["stat"]
    assert stat == {"mean": 0.5, "best": None, "rows": [1, None]}
    assert [meta.mase_op for meta in other.metas()] == [meta.mase_op for meta in graph.metas()]
    with pytest.raises(ValueError, match=r"as JSON or TOML: give a folder, a .json or a .toml file, got"):
        save_node_meta_param_interface_pass(graph, tmp_path / "meta.yaml")


def test_corrupt_and_missing_files_are_reported(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"graph.json does not exist"):
        load(tmp_path / "nowhere")
    save_mase_graph_interface_pass(tiny_graph(), tmp_path)
    (weights,) = tmp_path.glob("*.safetensors")
    content = weights.read_bytes()
    weights.write_bytes(content[: len(content) // 2])
    with pytest.raises(ValueError, match="safetensors is corrupt"):
        load(tmp_path)
    weights.unlink()
    with pytest.raises(ValueError, match=r"safetensors does not exist"):
        load(tmp_path)
    (tmp_path / "graph.json").write_text('{"version": 1,')
    with pytest.raises(ValueError, match=r"graph.json is corrupt"):
        load(tmp_path)
    (tmp_path / "graph.json").write_text('{"version": 99}')
    with pytest.raises(ValueError, match="has version 99, but version 2 is required"):
        load(tmp_path)


def test_the_save_of_a_different_model_is_rejected(tmp_path: Path) -> None:
    save_mase_graph_interface_pass(tiny_graph(), tmp_path)
    with pytest.raises(ValueError, match="it holds a different model"):
        load(tmp_path, MaseGraph(Mixed()))


def test_a_failed_save_leaves_the_earlier_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = tiny_graph()
    save_mase_graph_interface_pass(graph, tmp_path)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    graph.model.get_parameter("seq_blocks.2.weight").data.zero_()

    def no_space(*paths: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("chop.files.os.replace", no_space)
    with pytest.raises(OSError, match="No space left"):
        save_mase_graph_interface_pass(graph, tmp_path)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


@pytest.mark.parametrize("pass_args", [None, {}, {"save_dri": "x"}, 3])
def test_interface_passes_require_a_path(pass_args: Any) -> None:
    with pytest.raises(ValueError, match=r"must be a path or {'save_dir': path}"):
        save_mase_graph_interface_pass(tiny_graph(), pass_args)
