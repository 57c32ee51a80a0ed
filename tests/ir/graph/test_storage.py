"""Graphs in files: bit for bit, and safe from strangers."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
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
def test_after_a_load_outputs_are_bit_identical(name: str, tmp_path: Path) -> None:
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
    assert load(tmp_path / "a").metas()[3].args["weight"].format.precision == [4, 4]
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
        return torch.exp(self.linear(self.inner(x)))


def test_other_classes_need_the_users_model(tmp_path: Path) -> None:
    def traced() -> MaseGraph:
        return MaseGraph(Foreign(), leaf_modules=(Foreign.Inner,))

    graph = traced()
    save_mase_graph_interface_pass(graph, tmp_path)
    with pytest.raises(
        ValueError, match=r"module 'inner' is a test_storage.Foreign.Inner, which only the model's own code"
    ):
        load(tmp_path)
    x = torch.randn(2, 4)
    assert load(tmp_path, traced()).model(x).equal(graph.model(x))


def test_unknown_functions_need_the_users_model_and_formats_come_along(tmp_path: Path) -> None:
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


def test_metadata_alone(tmp_path: Path) -> None:
    graph = tiny_graph()
    graph.metas()[3].software["args"]["weight"]["stat"] = {"variance_precise": {"mean": 0.5, "count": 80}}
    save_node_meta_param_interface_pass(graph, tmp_path / "meta")
    other = tiny_graph()
    other, _ = load_node_meta_param_interface_pass(other, {"load_dir": tmp_path / "meta"})
    stat = other.metas()[3].parameters["software"]["args"]["weight"]["stat"]
    assert stat == {"variance_precise": {"mean": 0.5, "count": 80}}
    assert other.metas()[3].value("data_in_0") is not None
    with pytest.raises(ValueError, match="is of another graph"):
        load_node_meta_param_interface_pass(annotated(Mixed(), x=torch.randn(1, 6)), tmp_path / "meta")


def edit(folder: Path, change: Callable[[dict[str, Any]], None]) -> None:
    data = json.loads((folder / "graph.json").read_text())
    change(data)
    (folder / "graph.json").write_text(json.dumps(data))


def node(data: dict[str, Any], index: int) -> dict[str, Any]:
    found: dict[str, Any] = data["nodes"][index]
    return found


EVIL = "__import__('os').environ.__setitem__('CHOP_EVIL', '1')"
ATTACKS: dict[str, Callable[[dict[str, Any]], None]] = {
    "function": lambda d: node(d, 2).update(op="call_function", target={"function": "os.system"}),
    "method": lambda d: node(d, 2).update(op="call_method", target=f"relu() or {EVIL} or x"),
    "placeholder": lambda d: node(d, 0).update(target=f"x={EVIL}"),
    "node name": lambda d: node(d, 2).update(name=f"a = {EVIL}"),
    "module path": lambda d: node(d, 2).update(target=f'a", {EVIL}) or "'),
    "keyword": lambda d: node(d, 2).update(kwargs={"dict": {f"a={EVIL}, b": 1}}),
    "class": lambda d: d["model"]["modules"]["seq_blocks"]["modules"]["1"].update({"class": "os"}),
    "internals": lambda d: d["model"]["attributes"].update(_forward_hooks={"dict": {}}),
    "getattr": lambda d: node(d, 2).update(
        op="call_function", target={"function": "builtins.getattr"}, args={"tuple": [{"node": "x"}, "__class__"]}
    ),
    "kind of node": lambda d: node(d, 2).update(op="call_anything"),
    "kind of value": lambda d: node(d, 2).update(args={"pickle": "gASV"}),
    "weights outside": lambda d: d.update(weights="../../../etc/passwd"),
}


@pytest.mark.parametrize("attack", ATTACKS)
def test_a_file_from_a_stranger_runs_nothing(attack: str, tmp_path: Path) -> None:
    save_mase_graph_interface_pass(quantized_tiny(), tmp_path)
    edit(tmp_path, ATTACKS[attack])
    with pytest.raises(ValueError, match=r"cannot load|is damaged"):
        load(tmp_path).model(torch.randn(2, 16))
    assert "CHOP_EVIL" not in os.environ


def test_damage_is_explained_in_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"there is no .*graph.json"):
        load(tmp_path / "nowhere")
    save_mase_graph_interface_pass(tiny_graph(), tmp_path)
    (weights,) = tmp_path.glob("*.safetensors")
    content = weights.read_bytes()
    weights.write_bytes(content[: len(content) // 2])
    with pytest.raises(ValueError, match="safetensors is damaged"):
        load(tmp_path)
    weights.unlink()
    with pytest.raises(ValueError, match=r"there is no .*safetensors"):
        load(tmp_path)
    (tmp_path / "graph.json").write_text('{"version": 1,')
    with pytest.raises(ValueError, match=r"graph.json is damaged"):
        load(tmp_path)
    (tmp_path / "graph.json").write_text('{"version": 99}')
    with pytest.raises(ValueError, match="it has version 99, this is version 1"):
        load(tmp_path)


def test_another_models_save_does_not_load(tmp_path: Path) -> None:
    save_mase_graph_interface_pass(tiny_graph(), tmp_path)
    with pytest.raises(ValueError, match="it holds another model"):
        load(tmp_path, MaseGraph(Mixed()))


def test_a_failed_save_leaves_the_earlier_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = tiny_graph()
    save_mase_graph_interface_pass(graph, tmp_path)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    graph.model.get_parameter("seq_blocks.2.weight").data.zero_()

    def no_space(self: Path, content: bytes) -> int:
        with open(self, "wb") as file:
            file.write(content[:10])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", no_space)
    with pytest.raises(OSError, match="No space left"):
        save_mase_graph_interface_pass(graph, tmp_path)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


@pytest.mark.parametrize("pass_args", [None, {}, {"save_dri": "x"}, 3])
def test_interface_passes_want_a_path(pass_args: Any) -> None:
    with pytest.raises(ValueError, match=r"must be a path or {'save_dir': path}"):
        save_mase_graph_interface_pass(tiny_graph(), pass_args)
