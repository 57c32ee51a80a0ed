"""Loading an untrusted file runs no code from it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from chop.ir import MaseGraph
from chop.passes.graph import (
    load_mase_graph_interface_pass,
    quantize_transform_pass,
    save_mase_graph_interface_pass,
)
from samples import annotated

Change = Callable[[dict[str, Any]], object]


class Small(nn.Module):
    """One layer, one function, a parameter and a buffer."""

    shift: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)
        self.scale = nn.Parameter(torch.ones(4))
        self.register_buffer("shift", torch.zeros(4))

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.layer(x).relu()
        return y * self.scale + self.shift


def saved(folder: Path) -> MaseGraph:
    graph = annotated(Small(), x=torch.randn(2, 4))
    graph, _ = quantize_transform_pass(graph, {"by": "type", "default": {"config": {"name": "integer"}}})
    save_mase_graph_interface_pass(graph, folder)
    return graph


def edit(folder: Path, change: Change) -> None:
    path = folder / "graph.json"
    data = json.loads(path.read_text())
    change(data)
    path.write_text(json.dumps(data))


def node(data: dict[str, Any], name: str) -> dict[str, Any]:
    found: dict[str, Any] = next(node for node in data["nodes"] if node["name"] == name)
    return found


def tuple_of(*items: Any) -> dict[str, Any]:
    return {"tuple": list(items)}


def call(op: str, name: str, target: str, *args: Any) -> dict[str, Any]:
    return {"op": op, "name": name, "target": target, "args": tuple_of(*args), "kwargs": {"dict": {}}}


def inserted(*nodes: dict[str, Any]) -> Change:
    """Nodes right after the input."""
    return lambda data: data["nodes"].__setitem__(slice(1, 1), list(nodes))


def renamed(place: str, old: str, new: str) -> Change:
    """A module, parameter or buffer of the model under another name, and the node that uses it too."""

    def change(data: dict[str, Any]) -> None:
        data["model"][place][new] = data["model"][place].pop(old)
        node(data, old)["target"] = new

    return change


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


X = {"node": "x"}
EVIL = "__import__('pathlib').Path('evil').touch()"
GLOBALS = "layer.forward.__func__.__globals__"
ATTACKS: dict[str, Change] = {
    "the whole way to eval": inserted(
        call("get_attr", "module", "layer"),
        call("get_attr", "names", GLOBALS),
        call("call_function", "found", "_operator.getitem", {"node": "names"}, "__builtins__"),
        call("call_function", "function", "_operator.getitem", {"node": "found"}, "eval"),
        call("call_module", "put", "layer.__setattr__", "view", {"node": "function"}),
        call("call_method", "run", "view", {"node": "module"}, EVIL),
    ),
    "function": inserted(call("call_function", "n", "os.system", EVIL)),
    "method as code": inserted(call("call_method", "n", f"relu() or {EVIL} or x", X)),
    "method of a tensor": inserted(call("call_method", "n", "register_hook", X)),
    "method of a constant": inserted(call("call_method", "n", "view", "text")),
    "input as code": lambda d: node(d, "x").update(target=f"x={EVIL}"),
    "node name as code": lambda d: node(d, "relu").update(name=f"a = {EVIL}"),
    "node name that hides the model": inserted(call("call_method", "self", "relu", X)),
    "node name in letters that Python reads as self": inserted(call("call_method", "\uff53elf", "relu", X)),
    "keyword as node name": inserted(call("call_method", "lambda", "relu", X)),
    "builtin as node name": inserted(call("call_method", "getattr", "relu", X)),
    "argument as code": lambda d: node(d, "relu").update(kwargs={"dict": {f"a={EVIL}, b": 1}}),
    "module path as code": lambda d: node(d, "layer").update(target=f'layer", {EVIL}) or "'),
    "path through attributes": inserted(call("get_attr", "n", GLOBALS)),
    "path to a method": inserted(call("call_module", "n", "layer.__setattr__", "view", X)),
    "path to a plain attribute": inserted(call("get_attr", "n", "layer.in_features")),
    "path to a module as a value": inserted(call("get_attr", "n", "layer")),
    "path to the model's own methods": inserted(call("call_module", "n", "add_submodule", "a", X)),
    "module named like a method": renamed("modules", "layer", "add_module"),
    "module named like a method of graphs": renamed("modules", "layer", "add_submodule"),
    "module named like the code": renamed("modules", "layer", "code"),
    "module named like the graph": renamed("modules", "layer", "_graph"),
    "module named in letters that Python reads as add_module": renamed("modules", "layer", "\uff41dd_module"),
    "parameter named like a method": renamed("parameters", "scale", "load_state_dict"),
    "buffer named like a method": renamed("buffers", "shift", "forward"),
    "attribute named like a method": lambda d: d["model"]["modules"]["layer"]["attributes"].update(forward=3),
    "attribute that is internal": lambda d: d["model"]["attributes"].update(_forward_hooks={"dict": {}}),
    "class": lambda d: d["model"]["modules"]["layer"].update({"class": "os"}),
    "class of the module torch.nn": lambda d: d["model"]["modules"]["layer"].update({"class": "__class__"}),
    "reading any attribute": inserted(call("call_function", "n", "builtins.getattr", X, "__class__")),
    "reading any attribute, quantised": inserted(
        {**call("call_function", "n", "builtins.getattr", X, "__class__"), "quantized": {"format": "integer"}}
    ),
    "attribute that changes with the mode": inserted(
        {**call("call_function", "n", "builtins.getattr", X, "shape"), "by_mode": [[1, "__class__", "shape"]]}
    ),
    "format": lambda d: node(d, "relu")["quantized"].update(format=f"a({EVIL})"),
    "format of a layer": lambda d: d["model"]["modules"]["layer"]["quantized"].update(label="Evil"),
    "formats on a container": lambda d: d["model"].update(quantized={"label": "Integer", "formats": {}}),
    "kind of node": lambda d: node(d, "relu").update(op="call_anything"),
    "kind of value": lambda d: node(d, "relu").update(args={"pickle": "gASV"}),
    "missing node": lambda d: node(d, "relu").update(args=tuple_of({"node": "nowhere"})),
    "deep nesting": lambda d: node(d, "relu").update(args=tuple_of({"node": "layer"}, nested(900))),
    "too few arguments": inserted(call("call_function", "n", "_operator.add")),
    "weights outside": lambda d: d.update(weights="../../../etc/passwd"),
    "enormous tensor": inserted(call("call_method", "n", "expand", X, 10**12, 2, 4)),
    "enormous number": inserted(call("call_method", "n", "expand", X, 10**30, 2, 4)),
    "enormous repetition": inserted(call("call_method", "n", "repeat", X, tuple_of(10**9, 10**9))),
    "enormous repetition, as ATen": inserted(call("call_function", "n", "aten.repeat.default", X, [10**9, 10**9])),
    "enormous constant": inserted(call("call_function", "n", "torch.zeros", tuple_of(10**6, 10**6))),
    "enormous constant, with a size from a node": inserted(call("call_function", "n", "torch.rand", X, 10**12)),
    "enormous constant, as ATen": inserted(call("call_function", "n", "aten.full.default", [10**12], 0)),
    "enormous constant of a tensor": inserted(call("call_method", "n", "new_empty", X, tuple_of(10**12))),
    "enormous square": inserted(call("call_function", "n", "torch.eye", 10**6)),
    "enormous diagonal": inserted(call("call_function", "n", "torch.diag_embed", X, -(10**6))),
    "enormous range": inserted(call("call_function", "n", "torch.arange", 0, 1.0, 1e-12)),
    "enormous strides": inserted(call("call_function", "n", "torch.empty_strided", tuple_of(2), tuple_of(10**12))),
    "enormous constant that overflows": inserted(call("call_function", "n", "torch.ones", 10**12, 10**12)),
    "many large constants": inserted(
        *(call("call_function", f"n{i}", "torch.zeros", tuple_of(2**15, 2**15)) for i in range(5))
    ),
    "repeated repetition": inserted(
        call("call_method", "n0", "repeat", X, tuple_of(2000, 2000)),
        call("call_function", "n1", "torch.relu", {"node": "n0"}),
        call("call_method", "n2", "repeat", {"node": "n1"}, tuple_of(2000, 2000)),
    ),
    "doubled again and again": inserted(
        call("call_function", "n0", "torch.cat", tuple_of(X, X)),
        *(
            call("call_function", f"n{i}", "torch.cat", tuple_of(*[{"node": f"n{i - 1}"}] * 2))
            for i in range(1, 40)
        ),
    ),
    "device that is not there": inserted(call("call_method", "n", "to", X, {"device": "cuda:99"})),
    "device that is not there, as text": inserted(call("call_method", "n", "to", X, "cuda:99")),
    "all inputs as a tensor": lambda d: node(d, "x").update(target="*x"),
    "module that is a keyword": renamed("modules", "layer", "class"),
    "mode of a module that is not there": lambda d: node(d, "relu").update(mode_of="nowhere"),
    "no nodes": lambda d: d.update(nodes="abc"),
    "no model": lambda d: d.update(model=None),
}


@pytest.mark.parametrize("attack", ATTACKS)
def test_an_untrusted_file_runs_no_code(attack: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    saved(tmp_path / "graph")
    edit(tmp_path / "graph", ATTACKS[attack])
    with pytest.raises(ValueError, match=r"cannot load|is corrupt"):
        load_mase_graph_interface_pass(None, tmp_path / "graph")
    assert [path.name for path in tmp_path.iterdir()] == ["graph"]


def test_the_file_without_an_attack_loads(tmp_path: Path) -> None:
    graph, x = saved(tmp_path), torch.randn(2, 4)
    assert load_mase_graph_interface_pass(None, tmp_path)[0].model(x).equal(graph.model(x))


@pytest.mark.parametrize(
    "constructor",
    [
        call("call_function", "n", "torch.full", tuple_of(1000, 1000), 10**6),
        call("call_method", "n", "new_full", X, tuple_of(1000, 1000), 10**6),
        call("call_function", "n", "torch.randint", 0, 2**40, tuple_of(3)),
        call("call_function", "n", "torch.arange", 10**12, 10**12 + 5),
    ],
)
def test_large_values_are_not_sizes(constructor: dict[str, Any], tmp_path: Path) -> None:
    saved(tmp_path)
    edit(tmp_path, inserted(constructor))
    load_mase_graph_interface_pass(None, tmp_path)


def test_a_file_cannot_change_what_a_node_calls(tmp_path: Path) -> None:
    saved(tmp_path)
    edit(tmp_path, lambda data: node(data, "mul").update(target="_operator.add"))
    with pytest.raises(ValueError, match="it holds a different model: its node 'mul' is"):
        load_mase_graph_interface_pass(MaseGraph(Small()), tmp_path)


def test_a_file_cannot_name_other_files_to_remove(tmp_path: Path) -> None:
    graph = saved(tmp_path / "graph")
    (tmp_path / "graph" / "mine.txt").write_text("mine")
    (tmp_path / "mine.txt").write_text("mine")
    for name in ("mine.txt", "../mine.txt"):
        edit(tmp_path / "graph", lambda data, name=name: data.update(weights=name))  # type: ignore[misc]
        save_mase_graph_interface_pass(graph, tmp_path / "graph")
    assert (tmp_path / "graph" / "mine.txt").exists()
    assert (tmp_path / "mine.txt").exists()
