"""Small models, and calls of every op of the op table for the tests that run over it."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from chop.ir import MaseGraph
from chop.passes.graph import (
    add_common_metadata_analysis_pass,
    add_software_metadata_analysis_pass,
    init_metadata_analysis_pass,
)

LAB_CONFIG: dict[str, Any] = {
    "name": "integer",
    "data_in_width": 8,
    "data_in_frac_width": 4,
    "weight_width": 8,
    "weight_frac_width": 4,
    "bias_width": 8,
    "bias_frac_width": 4,
}
LAB_PASS_ARGS: dict[str, Any] = {
    "by": "type",
    "default": {"config": {"name": None}},
    "linear": {"config": LAB_CONFIG},
}


class Tiny(nn.Module):
    """jsc-tiny as in the course notes, with `nn.ReLU(16)`, which is an in-place ReLU."""

    def __init__(self) -> None:
        super().__init__()
        self.seq_blocks = nn.Sequential(nn.BatchNorm1d(16), nn.ReLU(16), nn.Linear(16, 5), nn.ReLU(5))  # type: ignore[arg-type]

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.seq_blocks(x)
        return y


class Mixed(nn.Module):
    """Layers, functions, methods, operators, an attribute, data movement and an unknown op."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(6, 4)
        self.scale = nn.Parameter(torch.rand(4))
        self.register_buffer("shift", torch.rand(4))
        self.unused = nn.Linear(2, 2)

    def forward(self, x: Tensor) -> Tensor:
        y = self.first(x).relu()
        y = torch.cat([y, F.gelu(self.scale * y + self.shift)], dim=1)
        y = torch.exp(-y).view(-1, 2, 4)
        return torch.bmm(y, y.transpose(1, 2)).flatten(1).mean(1)


def annotated(model: nn.Module, **inputs: Any) -> MaseGraph:
    """Return the graph of a model, annotated with `inputs`."""
    graph, _ = init_metadata_analysis_pass(MaseGraph(model), None)
    graph, _ = add_common_metadata_analysis_pass(graph, {"dummy_in": inputs})
    graph, _ = add_software_metadata_analysis_pass(graph, None)
    return graph


def tiny_graph() -> MaseGraph:
    """Return the annotated graph of `Tiny`."""
    return annotated(Tiny(), x=torch.randn(8, 16))


class Calls(nn.Module):
    """A model that makes one call: `call(module, *inputs)`."""

    def __init__(self, call: Callable[..., Any], module: nn.Module | None = None) -> None:
        super().__init__()
        self.layer = module
        self.call = call

    def forward(self, a: Tensor, b: Tensor, c: Tensor) -> Any:
        return self.call(self.layer, a, b, c) if self.layer is not None else self.call(a, b, c)


class Sample:
    """A call of an op as a layer, a function or a tensor method, with its inputs."""

    def __init__(self, spelling: str, module: nn.Module | None, call: Callable[..., Any], *inputs: Tensor) -> None:
        self.spelling = spelling
        self.module = module
        self.call = call
        self.inputs = inputs

    def model(self) -> Calls:
        return Calls(self.call, self.module)

    def arguments(self) -> dict[str, Tensor]:
        """Return copies of the inputs, which tests may change."""
        filled = [*self.inputs, torch.zeros(1), torch.zeros(1)][:3]
        return {name: tensor.clone() for name, tensor in zip("abc", filled, strict=True)}


def layer(module: nn.Module, x: Tensor) -> Sample:
    """Return a call of a layer."""
    return Sample(type(module).__name__, module, lambda layer, a, b, c: layer(a), x)


def function(target: Callable[..., Any], *inputs: Tensor, rest: tuple[Any, ...] = ()) -> Sample:
    """Return a call of a function with up to three tensors, followed by the arguments `rest`."""
    num_inputs = len(inputs)
    return Sample(f"{target.__name__}()", None, lambda *tensors: target(*tensors[:num_inputs], *rest), *inputs)


def method(name: str, *inputs: Tensor, rest: tuple[Any, ...] = ()) -> Sample:
    """Return a call of a tensor method of the first input."""
    num_inputs = len(inputs)
    return Sample(
        f".{name}", None, lambda *tensors: getattr(tensors[0], name)(*tensors[1:num_inputs], *rest), *inputs
    )


def _batch_norm(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return F.batch_norm(x, torch.zeros(3), torch.ones(3), weight=weight, bias=bias)


def _layer_norm(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return F.layer_norm(x, (8,), weight, bias)


def _random(*shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape)))


FLAT, LINE, IMAGE = _random(5, 8), _random(2, 3, 9), _random(2, 3, 8, 8)
"""Inputs for most ops: rows, sequences with 3 channels, images with 3 channels."""

SAMPLES: dict[str, Callable[[], list[Sample]]] = {
    "linear": lambda: [layer(nn.Linear(8, 4), FLAT), function(F.linear, FLAT, _random(4, 8), _random(4))],
    "conv1d": lambda: [layer(nn.Conv1d(3, 4, 3), LINE), function(F.conv1d, LINE, _random(4, 3, 3))],
    "conv2d": lambda: [
        layer(nn.Conv2d(3, 6, 3, groups=3, padding=1, padding_mode="reflect"), IMAGE),
        function(F.conv2d, IMAGE, _random(4, 3, 3, 3), _random(4)),
    ],
    "batch_norm1d": lambda: [layer(nn.BatchNorm1d(8), FLAT), layer(nn.BatchNorm1d(8, affine=False), FLAT)],
    "batch_norm2d": lambda: [layer(nn.BatchNorm2d(3, momentum=None), IMAGE)],
    "batch_norm": lambda: [function(_batch_norm, IMAGE, torch.rand(3), torch.rand(3))],
    "layer_norm": lambda: [
        layer(nn.LayerNorm(8), FLAT),
        function(_layer_norm, FLAT, torch.rand(8), torch.rand(8)),
    ],
    "softmax": lambda: [
        layer(nn.Softmax(1), FLAT),
        function(F.softmax, FLAT, rest=(1,)),
        function(torch.softmax, FLAT, rest=(1,)),
        method("softmax", FLAT, rest=(1,)),
    ],
    "relu": lambda: [
        layer(nn.ReLU(), FLAT),
        function(F.relu, FLAT),
        function(torch.relu, FLAT),
        method("relu", FLAT),
    ],
    "leaky_relu": lambda: [layer(nn.LeakyReLU(), FLAT), function(F.leaky_relu, FLAT)],
    "gelu": lambda: [layer(nn.GELU("tanh"), FLAT), function(F.gelu, FLAT)],
    "silu": lambda: [layer(nn.SiLU(), FLAT), function(F.silu, FLAT)],
    "sigmoid": lambda: [layer(nn.Sigmoid(), FLAT), function(torch.sigmoid, FLAT), method("sigmoid", FLAT)],
    "tanh": lambda: [layer(nn.Tanh(), FLAT), function(torch.tanh, FLAT), method("tanh", FLAT)],
    "selu": lambda: [layer(nn.SELU(), FLAT), function(F.selu, FLAT), function(torch.selu, FLAT)],
    "softplus": lambda: [layer(nn.Softplus(), FLAT), function(F.softplus, FLAT)],
    "softsign": lambda: [layer(nn.Softsign(), FLAT), function(F.softsign, FLAT)],
    "hardtanh": lambda: [layer(nn.Hardtanh(), FLAT), layer(nn.ReLU6(), FLAT), function(F.hardtanh, FLAT)],
    "embedding": lambda: [
        layer(nn.Embedding(7, 4, padding_idx=0), torch.tensor([[1, 2], [0, 6]])),
        function(F.embedding, torch.tensor([3, 4]), _random(7, 4)),
    ],
    "dropout": lambda: [layer(nn.Dropout(0.5), FLAT)],
    "matmul": lambda: [
        function(torch.matmul, FLAT, _random(8, 3)),
        function(operator.matmul, FLAT, _random(8)),
        method("matmul", FLAT, _random(8, 3)),
    ],
    "bmm": lambda: [function(torch.bmm, LINE, _random(2, 9, 4)), method("bmm", LINE, _random(2, 9, 4))],
    "scaled_dot_product_attention": lambda: [
        function(F.scaled_dot_product_attention, _random(2, 2, 5, 4), _random(2, 2, 7, 4), 1 + _random(2, 2, 7, 4))
    ],
    "cat": lambda: [Sample("cat()", None, lambda a, b, c: torch.cat([a, b], dim=1), FLAT, FLAT + 1)],
    "mean": lambda: [function(torch.mean, FLAT), method("mean", FLAT, rest=(1,))],
    "add": lambda: _arithmetic("add", operator.add),
    "sub": lambda: _arithmetic("sub", operator.sub),
    "mul": lambda: _arithmetic("mul", operator.mul),
    "div": lambda: _arithmetic("div", operator.truediv),
    **{
        f"{kind}{dims}d": lambda kind=kind, dims=dims: _pooling(kind, dims)  # type: ignore[misc]
        for kind in ("max_pool", "avg_pool", "adaptive_max_pool", "adaptive_avg_pool")
        for dims in (1, 2)
    },
}
"""For each op, a function that makes its calls. A new op of the op table needs an entry."""


def _arithmetic(name: str, operator_function: Callable[..., Any]) -> list[Sample]:
    other = 1.5 * _random(5, 8).sign()  # one magnitude, which no format rounds to 0: a divisor must not be 0
    return [
        function(operator_function, FLAT, other),
        function(getattr(torch, name), FLAT, other),
        method(name, FLAT, other),
    ]


def _pooling(kind: str, dims: int) -> list[Sample]:
    x, size = (LINE, IMAGE)[dims - 1], 4 if kind.startswith("adaptive") else 2
    camel = "".join(word.capitalize() for word in kind.split("_"))
    return [
        layer(getattr(nn, f"{camel}{dims}d")(size), x),
        function(getattr(F, f"{kind}{dims}d"), x, rest=(size,)),
    ]


def samples() -> dict[str, list[Sample]]:
    """Return the calls of every op."""
    return {op: make() for op, make in SAMPLES.items()}
