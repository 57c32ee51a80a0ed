"""Random networks: graphs compute what the model computes, also in `float` formats, copied, saved and loaded."""

from __future__ import annotations

import copy
import pickle
import warnings
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from chop.ir import MaseGraph
from chop.ir.graph.capture import CaptureError
from chop.passes.graph import (
    add_common_metadata_analysis_pass,
    init_metadata_analysis_pass,
    load_mase_graph_interface_pass,
    quantize_transform_pass,
    save_mase_graph_interface_pass,
    verify_common_metadata_analysis_pass,
)

Case = dict[str, Any]
WIDTH = 8  # features of every value
ROWS = 3

LAYERS: dict[str, Callable[[], nn.Module]] = {
    "linear": lambda: nn.Linear(WIDTH, WIDTH),
    "batch_norm": lambda: nn.BatchNorm1d(WIDTH),
    "layer_norm": lambda: nn.LayerNorm(WIDTH),
    "relu": nn.ReLU,
    "relu_": lambda: nn.ReLU(inplace=True),
    "hardtanh_": lambda: nn.Hardtanh(inplace=True),
    "gelu": nn.GELU,
    "hardswish": nn.Hardswish,
    "dropout": nn.Dropout,
    "softmax": lambda: nn.Softmax(dim=-1),
    "sequential": lambda: nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU(inplace=True)),
    "block": lambda: Block(),
}
FUNCTIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "f_relu": F.relu,
    "f_relu_": lambda a: F.relu(a, inplace=True),
    "f_gelu": F.gelu,
    "f_softmax": lambda a: F.softmax(a, dim=1),
    "f_hardswish": F.hardswish,
    "method_relu_": lambda a: a.relu_(),
    "sigmoid": lambda a: a.sigmoid(),
    "views": lambda a: a.view(-1, 2, 4).transpose(1, 2).reshape(-1, WIDTH),
    "view_relu_": lambda a: _then(a.view(-1, 2, 4).relu_(), a),
    "slice_mul_": lambda a: _then(a[:, :4].mul_(0.5), a),
    "narrow_add_": lambda a: _then(a.narrow(1, 2, 3).add_(1.0), a),
    "old_view": lambda a: _old_view(a),
    "swap_halves": lambda a: torch.cat([a.chunk(2, dim=1)[1], a.chunk(2, dim=1)[0]], dim=1),
    "columns": lambda a: torch.stack([a[:, i] for i in range(WIDTH)], dim=1),
    "constant": lambda a: a + torch.linspace(-1, 1, WIDTH),
    "scores": lambda a: (a @ a.transpose(0, 1)).softmax(-1) @ a,
    "attention": lambda a: _attention(a.view(1, -1, 2, 4).transpose(1, 2)),
    "checked": lambda a: _checked(a),
}
PAIRS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "add_": lambda a, b: _add_(a, b),
    "method_mul_": lambda a, b: a.mul_(b),
    "cat": lambda a, b: torch.cat([a, b], dim=1)[:, ::2],
    "where": lambda a, b: torch.where(a > b, a, b),
}
OUTPUTS = ("last", "last", "tuple", "dict")


def prepare() -> None:
    """Import what torch.export needs: interrupted by the time limit of a case, it could not be imported again."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch warns of its own calls
        torch.export.export(torch.nn.Linear(2, 2), (torch.zeros(1, 2),)).run_decompositions()


def _then(_: Tensor, value: Tensor) -> Tensor:
    """Return `value` after an in-place op on a view of it."""
    return value


def _old_view(a: Tensor) -> Tensor:
    view = a.view(-1, 2, 4)
    a.mul_(0.75)
    return view.flatten(1)


def _add_(a: Tensor, b: Tensor) -> Tensor:
    a += b
    return a


def _attention(a: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(a, a, a).reshape(-1, WIDTH)


def _checked(a: Tensor) -> Tensor:
    if a.shape[1] != WIDTH:  # torch.fx cannot trace it
        raise ValueError("wrong width")
    return a


class Block(nn.Module):
    """A module with a parameter, a buffer, a layer, and a function that follows the mode."""

    shift: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.linear, self.scale = nn.Linear(WIDTH, WIDTH), nn.Parameter(torch.randn(WIDTH))
        self.register_buffer("shift", torch.randn(WIDTH))

    def forward(self, a: Tensor) -> Tensor:
        return F.dropout(self.linear(a) * self.scale, 0.5, self.training) + self.shift


class Network(nn.Module):
    """The steps of a case. Value 0 is a copy of the input; each step adds a value."""

    def __init__(self, case: Case) -> None:
        super().__init__()
        self.steps: list[list[Any]] = case["steps"]
        self.output: str = case["output"]
        self.layers = nn.ModuleList(LAYERS[kind]() for kind in case["layers"])

    def forward(self, x: Tensor) -> Any:
        values = [x * 1.0]
        for kind, *sources in self.steps:
            if kind == "layer":
                values.append(self.layers[sources[0]](values[sources[1]]))
            else:
                function: Callable[..., Tensor] = FUNCTIONS[kind] if kind in FUNCTIONS else PAIRS[kind]
                values.append(function(*[values[source] for source in sources]))
        if self.output == "tuple":
            return values[-1], (values[0], values[len(values) // 2])
        return {"last": values[-1], "first": values[0]} if self.output == "dict" else values[-1]


def draw(random: Random) -> Case:
    """Draw layers, and up to 12 steps that call them and functions on earlier values."""
    layers = [random.choice(list(LAYERS)) for _ in range(random.randint(1, 5))]
    steps: list[list[Any]] = []
    for count in range(1, random.randint(2, 13)):
        source = random.choice([count - 1, count - 1, random.randrange(count)])
        match random.choice(["layer", "layer", "function", "function", "pair"]):
            case "layer":
                steps.append(["layer", random.randrange(len(layers)), source])
            case "function":
                steps.append([random.choice(list(FUNCTIONS)), source])
            case _:
                steps.append([random.choice(list(PAIRS)), source, random.randrange(count)])
    return {
        "layers": layers,
        "steps": steps,
        "output": random.choice(OUTPUTS),
        "capture": random.choice(["auto", "auto", "fx", "export"]),
        "seed": random.randrange(2**31),
    }


def check(case: Case, folder: Path) -> None:
    """Compare the graph with the model bit by bit: captured, in float, quantised, copied, saved and loaded."""
    torch.manual_seed(case["seed"])
    model, x = Network(case).eval(), torch.randn(ROWS, WIDTH)
    attributes, state = set(vars(model)), {key: value.clone() for key, value in model.state_dict().items()}
    try:
        graph = MaseGraph(model, example_inputs={"x": x}, capture=case["capture"])
    except CaptureError:
        if case["capture"] == "fx" and any(step[0] == "checked" for step in case["steps"]):
            return
        raise
    for rows in (x, torch.randn(ROWS + 2, WIDTH)):
        _check_same(graph, model, rows)
    assert set(vars(model)) == attributes, "the model has other attributes"
    graph, _ = init_metadata_analysis_pass(graph, None)
    graph, _ = add_common_metadata_analysis_pass(graph, {"dummy_in": {"x": x}})
    verify_common_metadata_analysis_pass(graph, None)
    for name in ("float", "integer"):
        quantized, _ = quantize_transform_pass(copy.deepcopy(graph), _all_in(name))
        if name == "float":
            _check_same(quantized, model, x)
        _check_copies(quantized, model, case, x, folder / name)
    assert all(value.equal(state[key]) for key, value in model.state_dict().items()), "the model has other weights"


def _all_in(name: str) -> dict[str, Any]:
    return {"by": "type", "default": {"config": {"name": name}}}


def _check_copies(graph: MaseGraph, model: nn.Module, case: Case, x: Tensor, folder: Path) -> None:
    save_mase_graph_interface_pass(graph, folder)
    again = MaseGraph(model, example_inputs={"x": x}, capture=case["capture"])
    copies = [copy.deepcopy(graph), pickle.loads(pickle.dumps(graph)), _loaded(again, folder)]
    known = all(meta.mase_op != "unknown" for meta in graph.metas())
    if known:
        copies.append(_loaded(None, folder))
    for other in copies:
        _check_same(other, graph.model, x)


def _loaded(graph: MaseGraph | None, folder: Path) -> MaseGraph:
    return load_mase_graph_interface_pass(graph, folder)[0]


@torch.no_grad()
def _check_same(graph: MaseGraph, model: nn.Module, x: Tensor) -> None:
    found, expected = graph.model(x.clone()), model(x.clone())
    assert type(found) is type(expected)
    for a, b in zip(_tensors(found), _tensors(expected), strict=True):
        same = (a == b) | (a.isnan() & b.isnan())
        assert same.all(), f"results differ by {(a - b).abs().max().item():.3g}"


def _tensors(value: Any) -> list[Tensor]:
    if isinstance(value, Tensor):
        return [value]
    parts = value.values() if isinstance(value, dict) else value
    return [tensor for part in parts for tensor in _tensors(part)]
