"""Random networks: graphs compute what the model computes, also in `float` formats, copied, saved and loaded.

Some have a state that changes from call to call, or branches on the mode: several calls in both modes are compared.
"""

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
STATES: dict[str, Callable[[Stateful, Tensor], Tensor]] = {
    "counts": lambda s, a: _then(s.count.add_(1), a) * s.count,
    "averages": lambda s, a: _assigned(s, "mean", 0.5 * s.mean + 0.5 * a.detach().mean(0), a - s.mean),
    "averages_in_place": lambda s, a: a - s.mean.mul_(0.5).add_(a.detach().mean(0)),
    "part": lambda s, a: a + _then(s.mean[:2].mul_(0.5).add_(1.0), s.mean),
    "read_before": lambda s, a: a * s.mean.sum() + s.mean.add_(1.0),
    "counts_in_training": lambda s, a: _then(s.count.add_(1), a) if s.training else a * (s.count + 1),
    "int": lambda s, a: _assigned(s, "calls", s.calls + 1, a) * s.calls,
    "list": lambda s, a: a * len(_appended(s.seen)),
    "last": lambda s, a: _assigned(s, "last", a, a * 2),
    "table": lambda s, a: a + (_assigned(s, "last", torch.ones(WIDTH), s) if s.last is None else s).last,
    "branch": lambda s, a: a + 100 if s.training else a,
    "number": lambda s, a: a * (2 if s.training else 3),
    "flag": lambda s, a: a * s.training + int(s.training),
    "tensors": lambda s, a: a + (s.mean if s.training else s.scale),
    "layers": lambda s, a: s.linear(a) if s.training else a,
    "noise": lambda s, a: a + torch.rand_like(a) if s.training else a,
    "dropout": lambda s, a: F.dropout(a, 0.5, s.training),
    "statistics": lambda s, a: F.batch_norm(a, s.mean, s.scale, training=s.training),
    "gradients": lambda s, a: a if torch.is_grad_enabled() else a + 1,
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


def _assigned(owner: Any, name: str, assigned: Any, value: Any) -> Any:
    """Return `value` after an assignment."""
    setattr(owner, name, assigned)
    return value


def _appended(values: list[int]) -> list[int]:
    values.append(1)
    return values


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


class Stateful(nn.Module):
    """One of `STATES`, with the attributes that these read and change."""

    count: Tensor
    mean: Tensor
    scale: Tensor
    linear: nn.Linear
    calls: int
    seen: list[int]
    last: Any

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind, self.linear = kind, nn.Linear(WIDTH, WIDTH)
        self.register_buffer("count", torch.zeros(()))
        self.register_buffer("mean", torch.randn(WIDTH))
        self.register_buffer("scale", torch.ones(WIDTH))
        self.calls, self.seen, self.last = 0, [0], None

    def forward(self, a: Tensor) -> Tensor:
        return STATES[self.kind](self, a)


class Network(nn.Module):
    """The steps of a case. Value 0 is a copy of the input; each step adds a value."""

    def __init__(self, case: Case) -> None:
        super().__init__()
        self.steps: list[list[Any]] = case["steps"]
        self.output: str = case["output"]
        self.layers = nn.ModuleList(Stateful(kind) if kind in STATES else LAYERS[kind]() for kind in case["layers"])

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
    kinds = list(LAYERS) if random.random() < 0.5 else [*LAYERS, *STATES]
    layers = [random.choice(kinds) for _ in range(random.randint(1, 5))]
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
    if any(kind in STATES for kind in case["layers"]):
        _check_states(case)
        return
    model, x = Network(case).eval(), torch.randn(ROWS, WIDTH)
    state = {key: value.clone() for key, value in model.state_dict().items()}
    before = _digest(model)
    try:
        graph = MaseGraph(model, example_inputs={"x": x}, capture=case["capture"])
    except CaptureError:
        if case["capture"] == "fx" and any(step[0] == "checked" for step in case["steps"]):
            return
        raise
    assert _digest(model) == before, "the model has changed"
    for rows in (x, torch.randn(ROWS + 2, WIDTH)):
        _check_same(graph, model, rows)
    graph, _ = init_metadata_analysis_pass(graph, None)
    graph, _ = add_common_metadata_analysis_pass(graph, {"dummy_in": {"x": x}})
    verify_common_metadata_analysis_pass(graph, None)
    for name in ("float", "integer"):
        quantized, _ = quantize_transform_pass(copy.deepcopy(graph), _all_in(name))
        if name == "float":
            _check_same(quantized, model, x)
        _check_copies(quantized, model, case, x, folder / name)
    assert all(value.equal(state[key]) for key, value in model.state_dict().items()), "the model has other weights"


def _check_states(case: Case) -> None:
    """Compare a graph, also copied, over several calls in both modes, unless these or the capture are refused."""
    for training in (True, False):
        model, reference, x = Network(case), Network(case), torch.randn(ROWS, WIDTH)
        reference.load_state_dict(model.state_dict())
        model.train(training)
        before = _digest(model)
        try:
            graph: MaseGraph | None = MaseGraph(model, example_inputs={"x": x}, capture=case["capture"])
        except CaptureError:
            graph = None
        assert _digest(model) == before, "the model has changed"
        if graph is not None:
            graph = copy.deepcopy(graph)
            for mode in (training, not training, training):
                _check_calls(graph, reference, mode)


@torch.no_grad()
def _check_calls(graph: MaseGraph, reference: nn.Module, training: bool) -> None:
    graph.model.train(training)
    reference.train(training)
    for seed in range(3):
        x = torch.randn(ROWS, WIDTH)
        torch.manual_seed(seed)
        try:
            found = graph.model(x.clone())
        except ValueError as error:
            assert "for evaluation" in str(error), error  # noqa: PT017
            return
        torch.manual_seed(seed)
        expected = reference(x.clone())
        for a, b in zip(_tensors(found), _tensors(expected), strict=True):
            assert torch.allclose(a, b, rtol=1e-4, atol=1e-4, equal_nan=True), f"call {seed} in mode {training}"
    for key, value in reference.state_dict().items():
        assert torch.allclose(graph.model.state_dict()[key], value, rtol=1e-4, atol=1e-4, equal_nan=True), key


def _digest(value: Any, path: tuple[int, ...] = ()) -> list[Any]:
    """Return the identities of all parts of a module, and the bytes of its tensors."""
    if id(value) in path:
        return []
    if isinstance(value, Tensor):
        return [id(value), value.detach().numpy().tobytes()]
    parts = vars(value) if isinstance(value, nn.Module) else value
    if isinstance(parts, dict):
        return [(key, id(part), _digest(part, (*path, id(value)))) for key, part in parts.items()]
    return [_digest(part, (*path, id(value))) for part in parts] if isinstance(parts, list) else [id(parts)]


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
