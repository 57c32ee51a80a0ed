"""Small models and, for every op, every way to call it."""

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
    """jsc-tiny as students write it, with `nn.ReLU(16)`, which is an in-place ReLU."""

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
    """A graph with all of its metadata, from one run on `inputs`."""
    graph, _ = init_metadata_analysis_pass(MaseGraph(model), None)
    graph, _ = add_common_metadata_analysis_pass(graph, {"dummy_in": inputs})
    graph, _ = add_software_metadata_analysis_pass(graph, None)
    return graph


def tiny_graph() -> MaseGraph:
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
    """One spelling of an op, and inputs for it."""

    def __init__(self, spelling: str, module: nn.Module | None, call: Callable[..., Any], *inputs: Tensor) -> None:
        self.spelling = spelling
        self.module = module
        self.call = call
        self.inputs = inputs

    def model(self) -> Calls:
        return Calls(self.call, self.module)

    def arguments(self) -> dict[str, Tensor]:
        filled = [*self.inputs, torch.zeros(1), torch.zeros(1)][:3]
        return dict(zip("abc", filled, strict=True))


def _layer(module: nn.Module, x: Tensor) -> Sample:
    return Sample(type(module).__name__, module, lambda layer, a, b, c: layer(a), x)


def _one(function: Callable[..., Any], x: Tensor, *rest: Any) -> Sample:
    return Sample(f"{function.__name__}()", None, lambda a, b, c: function(a, *rest), x)


def _two(function: Callable[..., Any], x: Tensor, y: Tensor) -> Sample:
    return Sample(f"{function.__name__}()", None, lambda a, b, c: function(a, b), x, y)


def _three(function: Callable[..., Any], x: Tensor, y: Tensor, z: Tensor) -> Sample:
    return Sample(f"{function.__name__}()", None, lambda a, b, c: function(a, b, c), x, y, z)


def _method(name: str, x: Tensor, *rest: Any) -> Sample:
    return Sample(f".{name}", None, lambda a, b, c: getattr(a, name)(*rest), x)


def _method_of_two(name: str, x: Tensor, y: Tensor) -> Sample:
    return Sample(f".{name}", None, lambda a, b, c: getattr(a, name)(b), x, y)


def _norm_function(x: Tensor) -> Sample:
    def call(a: Tensor, b: Tensor, c: Tensor) -> Tensor:
        return F.batch_norm(a, torch.zeros(3), torch.ones(3), weight=b, bias=c)

    return Sample("batch_norm()", None, call, x, torch.rand(3), torch.rand(3))


def samples() -> dict[str, list[Sample]]:
    """By op: its layers, functions and methods. Made anew each time, so that tests may change them."""
    flat, image, line = torch.randn(5, 8), torch.randn(2, 3, 8, 8), torch.randn(2, 3, 9)
    found = {
        "linear": [_layer(nn.Linear(8, 4), flat), _three(F.linear, flat, torch.randn(4, 8), torch.randn(4))],
        "conv1d": [_layer(nn.Conv1d(3, 4, 3), line), _two(F.conv1d, line, torch.randn(4, 3, 3))],
        "conv2d": [
            _layer(nn.Conv2d(3, 6, 3, groups=3, padding=1, padding_mode="reflect"), image),
            _three(F.conv2d, image, torch.randn(4, 3, 3, 3), torch.randn(4)),
        ],
        "batch_norm1d": [_layer(nn.BatchNorm1d(8), flat), _layer(nn.BatchNorm1d(8, affine=False), flat)],
        "batch_norm2d": [_layer(nn.BatchNorm2d(3, momentum=None), image)],
        "batch_norm": [_norm_function(image)],
        "layer_norm": [
            _layer(nn.LayerNorm(8), flat),
            Sample(
                "layer_norm()",
                None,
                lambda a, b, c: F.layer_norm(a, (8,), b, c),
                flat,
                torch.rand(8),
                torch.rand(8),
            ),
        ],
        "softmax": [
            _layer(nn.Softmax(1), flat),
            _one(F.softmax, flat, 1),
            _one(torch.softmax, flat, 1),
            _method("softmax", flat, 1),
        ],
        "relu": [_layer(nn.ReLU(), flat), _one(F.relu, flat), _one(torch.relu, flat), _method("relu", flat)],
        "leaky_relu": [_layer(nn.LeakyReLU(), flat), _one(F.leaky_relu, flat)],
        "gelu": [_layer(nn.GELU("tanh"), flat), _one(F.gelu, flat)],
        "silu": [_layer(nn.SiLU(), flat), _one(F.silu, flat)],
        "sigmoid": [_layer(nn.Sigmoid(), flat), _one(torch.sigmoid, flat), _method("sigmoid", flat)],
        "tanh": [_layer(nn.Tanh(), flat), _one(torch.tanh, flat), _method("tanh", flat)],
        "selu": [_layer(nn.SELU(), flat), _one(F.selu, flat), _one(torch.selu, flat)],
        "softplus": [_layer(nn.Softplus(), flat), _one(F.softplus, flat)],
        "softsign": [_layer(nn.Softsign(), flat), _one(F.softsign, flat)],
        "hardtanh": [_layer(nn.Hardtanh(), flat), _layer(nn.ReLU6(), flat), _one(F.hardtanh, flat)],
        "embedding": [
            _layer(nn.Embedding(7, 4, padding_idx=0), torch.tensor([[1, 2], [0, 6]])),
            _two(F.embedding, torch.tensor([3, 4]), torch.randn(7, 4)),
        ],
        "dropout": [_layer(nn.Dropout(0.5), flat)],
        "matmul": [
            _two(torch.matmul, flat, torch.randn(8, 3)),
            _two(operator.matmul, flat, torch.randn(8)),
            _method_of_two("matmul", flat, torch.randn(8, 3)),
        ],
        "bmm": [_two(torch.bmm, line, torch.randn(2, 9, 4)), _method_of_two("bmm", line, torch.randn(2, 9, 4))],
        "scaled_dot_product_attention": [
            _three(
                F.scaled_dot_product_attention,
                torch.randn(2, 2, 5, 4),
                torch.randn(2, 2, 7, 4),
                torch.randn(2, 2, 7, 4),
            )
        ],
        "cat": [Sample("cat()", None, lambda a, b, c: torch.cat([a, b], dim=1), flat, flat + 1)],
        "mean": [_one(torch.mean, flat), _method("mean", flat, 1)],
    }
    for name, sign in (
        ("add", operator.add),
        ("sub", operator.sub),
        ("mul", operator.mul),
        ("div", operator.truediv),
    ):
        other = torch.rand(5, 8) + 1
        found[name] = [
            _two(sign, flat, other),
            _two(getattr(torch, name), flat, other),
            _method_of_two(name, flat, other),
        ]
    for kind, settings in (
        ("max_pool", (2,)),
        ("avg_pool", (2,)),
        ("adaptive_max_pool", (4,)),
        ("adaptive_avg_pool", (4,)),
    ):
        camel = "".join(word.capitalize() for word in kind.split("_"))
        for dims, x in ((1, line), (2, image)):
            layer = getattr(nn, f"{camel}{dims}d")(*settings)
            found[f"{kind}{dims}d"] = [_layer(layer, x), _one(getattr(F, f"{kind}{dims}d"), x, *settings)]
    return found
