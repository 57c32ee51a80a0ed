"""Small models, and calls of every op of the op table for the tests that run over it."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from chop.ir import MaseGraph
from chop.nn.hadamard import Hadamard
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
        y = torch.sinc(-y).view(-1, 2, 4)
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


def layer(module: nn.Module, *inputs: Tensor) -> Sample:
    """Return a call of a layer with up to three tensors; of several results, the first is returned."""
    num_inputs = len(inputs)

    def call(layer: nn.Module, *tensors: Tensor) -> Any:
        result = layer(*tensors[:num_inputs])
        return result[0] if isinstance(module, nn.RNNBase | nn.LSTMCell | nn.MultiheadAttention) else result

    return Sample(type(module).__name__, module, call, *inputs)


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


def _aten_batch_norm(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    statistics = torch.zeros(3), torch.ones(3)
    return aten.batch_norm.default(x, weight, bias, *statistics, False, 0.1, 1e-5, False)  # type: ignore[no-any-return]


def _convolution(x: Tensor, weight: Tensor) -> Tensor:
    one = [1, 1]
    return aten.convolution.default(x, weight, None, one, one, one, False, [0, 0], 1)  # type: ignore[no-any-return]


def _rms_norm(x: Tensor, weight: Tensor) -> Tensor:
    return F.rms_norm(x, (8,), weight)


def _conv1d_of_transformers() -> nn.Module:
    from transformers.pytorch_utils import Conv1D

    layer: nn.Module = Conv1D(4, 8)
    return layer


def _layer_norm(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return F.layer_norm(x, (8,), weight, bias)


def _random(*shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(sum(shape)))


FLAT, LINE, IMAGE, VOLUME = _random(5, 8), _random(2, 3, 9), _random(2, 3, 8, 8), _random(2, 3, 4, 5, 6)
"""Inputs for most ops: rows, sequences, images and volumes with 3 channels."""

aten = torch.ops.aten

ACTIVATIONS: dict[str, tuple[type[nn.Module], tuple[Any, ...]]] = {
    "elu": (nn.ELU, ()),
    "celu": (nn.CELU, ()),
    "hardsigmoid": (nn.Hardsigmoid, ()),
    "hardswish": (nn.Hardswish, ()),
    "hardshrink": (nn.Hardshrink, ()),
    "softshrink": (nn.Softshrink, ()),
    "tanhshrink": (nn.Tanhshrink, ()),
    "logsigmoid": (nn.LogSigmoid, ()),
    "mish": (nn.Mish, ()),
    "threshold": (nn.Threshold, (0.1, -1.0)),
    "rrelu": (nn.RReLU, ()),
    "glu": (nn.GLU, ()),
}
UPSAMPLINGS = [
    ("nearest", 1),
    ("nearest", 2),
    ("nearest", 3),
    ("linear", 1),
    ("bilinear", 2),
    ("bicubic", 2),
    ("trilinear", 3),
]

SAMPLES: dict[str, Callable[[], list[Sample]]] = {
    "hadamard": lambda: [layer(Hadamard(8), FLAT)],
    "linear": lambda: [
        layer(nn.Linear(8, 4), FLAT),
        function(F.linear, FLAT, _random(4, 8), _random(4)),
        function(aten.linear.default, FLAT, _random(4, 8), _random(4)),
    ],
    "linear_transposed": lambda: [layer(_conv1d_of_transformers(), FLAT)],
    "bilinear": lambda: [
        layer(nn.Bilinear(8, 8, 3), FLAT, FLAT + 1),
        function(F.bilinear, FLAT, FLAT + 1, _random(3, 8, 8)),
    ],
    "conv1d": lambda: [layer(nn.Conv1d(3, 4, 3), LINE), function(F.conv1d, LINE, _random(4, 3, 3))],
    "conv2d": lambda: [
        layer(nn.Conv2d(3, 6, 3, groups=3, padding=1, padding_mode="reflect"), IMAGE),
        function(F.conv2d, IMAGE, _random(4, 3, 3, 3), _random(4)),
    ],
    "batch_norm1d": lambda: [layer(nn.BatchNorm1d(8), FLAT), layer(nn.BatchNorm1d(8, affine=False), FLAT)],
    "batch_norm2d": lambda: [layer(nn.BatchNorm2d(3, momentum=None), IMAGE)],
    "batch_norm3d": lambda: [layer(nn.BatchNorm3d(3), VOLUME)],
    "conv3d": lambda: [layer(nn.Conv3d(3, 4, 2), VOLUME), function(F.conv3d, VOLUME, _random(4, 3, 2, 2, 2))],
    "conv_transpose1d": lambda: [
        layer(nn.ConvTranspose1d(3, 4, 3), LINE),
        function(F.conv_transpose1d, LINE, _random(3, 4, 3), _random(4)),
    ],
    "conv_transpose2d": lambda: [
        layer(nn.ConvTranspose2d(3, 6, 3, stride=2, groups=3), IMAGE),
        function(F.conv_transpose2d, IMAGE, _random(3, 4, 3, 3)),
    ],
    "conv_transpose3d": lambda: [layer(nn.ConvTranspose3d(3, 4, 2), VOLUME)],
    "batch_norm": lambda: [
        function(_batch_norm, IMAGE, torch.rand(3), torch.rand(3)),
        function(_aten_batch_norm, IMAGE, torch.rand(3), torch.rand(3)),
    ],
    "group_norm": lambda: [layer(nn.GroupNorm(3, 3), IMAGE), function(F.group_norm, IMAGE, rest=(3,))],
    "instance_norm": lambda: [
        layer(nn.InstanceNorm1d(3), LINE),
        layer(nn.InstanceNorm2d(3, affine=True, track_running_stats=True), IMAGE),
        layer(nn.InstanceNorm3d(3), VOLUME),
        function(F.instance_norm, IMAGE),
    ],
    "rms_norm": lambda: [layer(nn.RMSNorm(8), FLAT), function(_rms_norm, FLAT, torch.rand(8))],
    "normalize": lambda: [function(F.normalize, FLAT)],
    "local_response_norm": lambda: [
        layer(nn.LocalResponseNorm(2), IMAGE),
        function(F.local_response_norm, IMAGE, rest=(2,)),
    ],
    "log_softmax": lambda: [layer(nn.LogSoftmax(1), FLAT), method("log_softmax", FLAT, rest=(1,))],
    "softmin": lambda: [layer(nn.Softmin(1), FLAT), function(F.softmin, FLAT, rest=(1,))],
    "softmax2d": lambda: [layer(nn.Softmax2d(), IMAGE)],
    "layer_norm": lambda: [
        layer(nn.LayerNorm(8), FLAT),
        function(_layer_norm, FLAT, torch.rand(8), torch.rand(8)),
    ],
    "softmax": lambda: [
        layer(nn.Softmax(1), FLAT),
        function(F.softmax, FLAT, rest=(1,)),
        function(aten.softmax.int, FLAT, rest=(1,)),
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
    "prelu": lambda: [layer(nn.PReLU(), FLAT), function(F.prelu, FLAT, torch.rand(1))],
    "softplus": lambda: [layer(nn.Softplus(), FLAT), function(F.softplus, FLAT)],
    "softsign": lambda: [layer(nn.Softsign(), FLAT), function(F.softsign, FLAT)],
    **{name: lambda name=name: _activation(name) for name in ACTIVATIONS},  # type: ignore[misc]
    "hardtanh": lambda: [layer(nn.Hardtanh(), FLAT), layer(nn.ReLU6(), FLAT), function(F.hardtanh, FLAT)],
    "embedding": lambda: [
        layer(nn.Embedding(7, 4, padding_idx=0), torch.tensor([[1, 2], [0, 6]])),
        function(F.embedding, torch.tensor([3, 4]), _random(7, 4)),
    ],
    "embedding_bag": lambda: [
        layer(nn.EmbeddingBag(7, 4), torch.tensor([[1, 2], [0, 6]])),
        function(F.embedding_bag, torch.tensor([[1, 2], [0, 6]]), _random(7, 4)),
    ],
    "dropout": lambda: [layer(nn.Dropout(0.5), FLAT)],
    "matmul": lambda: [
        function(torch.matmul, FLAT, _random(8, 3)),
        function(operator.matmul, FLAT, _random(8)),
        method("matmul", FLAT, _random(8, 3)),
    ],
    "addmm": lambda: [
        function(torch.addmm, _random(3), FLAT, _random(8, 3)),
        function(aten.addmm.default, _random(3), FLAT, _random(8, 3)),
    ],
    "baddbmm": lambda: [function(torch.baddbmm, _random(2, 3, 4), LINE, _random(2, 9, 4))],
    "outer": lambda: [function(torch.outer, FLAT[0], FLAT[1])],
    "tensordot": lambda: [function(torch.tensordot, FLAT, _random(8, 5), rest=(1,))],
    "einsum": lambda: [
        Sample("einsum()", None, lambda a, b, c: torch.einsum("ij,jk->ik", a, b), FLAT, _random(8, 3)),
        Sample("einsum()", None, lambda a, b, c: torch.einsum("ij,jk->ik", [a, b]), FLAT, _random(8, 3)),
        Sample("einsum()", None, lambda a, b, c: aten.einsum.default("ij,jk->ik", [a, b]), FLAT, _random(8, 3)),
    ],
    "bmm": lambda: [function(torch.bmm, LINE, _random(2, 9, 4)), method("bmm", LINE, _random(2, 9, 4))],
    "scaled_dot_product_attention": lambda: [
        function(F.scaled_dot_product_attention, _random(2, 2, 5, 4), _random(2, 2, 7, 4), 1 + _random(2, 2, 7, 4))
    ],
    "cat": lambda: [Sample("cat()", None, lambda a, b, c: torch.cat([a, b], dim=1), FLAT, FLAT + 1)],
    "mean": lambda: [function(torch.mean, FLAT), method("mean", FLAT, rest=(1,))],
    "sum": lambda: [function(torch.sum, FLAT), method("sum", FLAT, rest=(1,))],
    "cumsum": lambda: [function(torch.cumsum, FLAT, rest=(1,))],
    "diff": lambda: [function(torch.diff, FLAT)],
    "fold": lambda: [
        layer(nn.Fold((4, 4), 2), _random(2, 12, 9)),
        function(F.fold, _random(2, 12, 9), rest=((4, 4), 2)),
    ],
    "convolution": lambda: [function(_convolution, IMAGE, _random(4, 3, 3, 3))],
    "amax": lambda: [function(torch.amax, FLAT, rest=(1,))],
    "amin": lambda: [function(torch.amin, FLAT, rest=(1,))],
    "max": lambda: [function(torch.max, FLAT), function(torch.max, FLAT, FLAT + 1)],
    "min": lambda: [function(torch.min, FLAT)],
    "abs": lambda: [function(torch.abs, FLAT)],
    "neg": lambda: [function(torch.neg, FLAT), function(operator.neg, FLAT)],
    "clamp": lambda: [function(torch.clamp, FLAT, rest=(-1.0, 1.0)), method("clamp_min", FLAT, rest=(0.0,))],
    "rsub": lambda: [function(torch.rsub, FLAT, FLAT + 1), function(aten.rsub.Scalar, FLAT, rest=(1.0,))],
    "maximum": lambda: [function(torch.maximum, FLAT, -FLAT)],
    "minimum": lambda: [function(torch.minimum, FLAT, -FLAT)],
    "addcmul": lambda: [function(torch.addcmul, FLAT, FLAT + 1, FLAT)],
    "addcdiv": lambda: [function(torch.addcdiv, FLAT, FLAT + 1, 1.5 * FLAT.sign())],
    "interpolate": lambda: [
        layer(nn.Upsample(scale_factor=2, mode="bilinear"), IMAGE),
        layer(nn.UpsamplingNearest2d(scale_factor=2), IMAGE),
        function(F.interpolate, IMAGE, rest=(12,)),
    ],
    **{
        f"upsample_{mode}{dims}d": lambda mode=mode, dims=dims: _upsampling(mode, dims)  # type: ignore[misc]
        for mode, dims in UPSAMPLINGS
    },
    "grid_sample": lambda: [
        function(F.grid_sample, IMAGE, torch.rand(2, 4, 4, 2), rest=("bilinear", "zeros", False))
    ],
    "lstm": lambda: [
        layer(nn.LSTM(9, 4, num_layers=2, bidirectional=True), LINE),
        layer(nn.LSTMCell(8, 4), FLAT),
    ],
    "gru": lambda: [layer(nn.GRU(9, 4, batch_first=True, bias=False), LINE), layer(nn.GRUCell(8, 4), FLAT)],
    "rnn": lambda: [layer(nn.RNN(9, 4), LINE), layer(nn.RNNCell(8, 4), FLAT)],
    "multihead_attention": lambda: [layer(nn.MultiheadAttention(8, 2), *(_random(n, 2, 8) for n in (3, 4, 4)))],
    "transformer_encoder_layer": lambda: [layer(nn.TransformerEncoderLayer(8, 2, 16), _random(3, 2, 8))],
    "transformer_decoder_layer": lambda: [
        layer(nn.TransformerDecoderLayer(8, 2, 16), _random(3, 2, 8), _random(4, 2, 8))
    ],
    "transformer_encoder": lambda: [
        layer(
            nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), 2, nn.LayerNorm(8)),
            _random(3, 2, 8),
        )
    ],
    "transformer_decoder": lambda: [
        layer(nn.TransformerDecoder(nn.TransformerDecoderLayer(8, 2, 16), 2), _random(3, 2, 8), _random(4, 2, 8))
    ],
    "transformer": lambda: [
        layer(nn.Transformer(8, 2, 1, 1, 16, batch_first=True), _random(2, 3, 8), _random(2, 4, 8))
    ],
    "add": lambda: _arithmetic("add", operator.add),
    "sub": lambda: _arithmetic("sub", operator.sub),
    "mul": lambda: _arithmetic("mul", operator.mul),
    "div": lambda: _arithmetic("div", operator.truediv),
    **{
        f"{kind}{dims}d": lambda kind=kind, dims=dims: _pooling(kind, dims)  # type: ignore[misc]
        for kind in (
            "max_pool",
            "avg_pool",
            "adaptive_max_pool",
            "adaptive_avg_pool",
            "lp_pool",
            "fractional_max_pool",
        )
        for dims in (1, 2, 3)
        if hasattr(F, f"{kind}{dims}d")
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


def _activation(name: str) -> list[Sample]:
    module, rest = ACTIVATIONS[name]
    return [layer(module(*rest), FLAT), function(getattr(F, name), FLAT, rest=rest)]


def _upsampling(mode: str, dims: int) -> list[Sample]:
    x = (LINE, IMAGE, VOLUME)[dims - 1]
    rest: tuple[Any, ...] = ([2 * size for size in x.shape[2:]], None)
    if mode != "nearest":
        rest = (rest[0], False, None)
    return [function(getattr(aten, f"upsample_{mode}{dims}d").vec, x, rest=rest)]


def _pooling(kind: str, dims: int) -> list[Sample]:
    x = (LINE, IMAGE, VOLUME)[dims - 1]
    camel = "".join(word.capitalize() for word in kind.split("_")).replace("Lp", "LP")
    settings = (2.0, 2) if kind == "lp_pool" else (2, 2) if kind.startswith("fractional") else (4,)
    settings = (2,) if kind in ("max_pool", "avg_pool") else settings
    if kind == "lp_pool":
        x = 0.5 + x.abs()  # the derivative of a root at 0 is infinite
    return [
        layer(getattr(nn, f"{camel}{dims}d")(*settings), x),
        function(getattr(F, f"{kind}{dims}d"), x, rest=settings),
    ]


def samples() -> dict[str, list[Sample]]:
    """Return the calls of every op."""
    return {op: make() for op, make in SAMPLES.items()}


def first_quick(cases: Sequence[Any]) -> list[Any]:
    """Return cases for `parametrize`, of which `make check` runs the first only."""
    first, *rest = cases
    slow = [pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=pytest.mark.slow) for case in rest]
    return [first, *slow]
