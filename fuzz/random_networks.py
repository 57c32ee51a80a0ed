"""Random small networks and number formats for circuits, as plain data."""

from __future__ import annotations

import math
from collections.abc import Callable
from random import Random
from typing import Any

import torch
from torch import Tensor, nn

from chop.formats import FORMATS, Format
from chop.formats.mixed_integer import MixedInteger
from chop.hardware.resolve.layers import set_formats
from chop.ir import MaseGraph, NodeMeta
from chop.passes.graph import add_common_metadata_analysis_pass, init_metadata_analysis_pass

Case = dict[str, Any]
Shape = tuple[int, ...]
Step = tuple[str, list[int], Case]
"""The kind of a layer, the numbers of the values that it reads, and its arguments. Value 0 is the input."""

FUNCTIONS: dict[str, Callable[[], nn.Module]] = {
    "sigmoid": nn.Sigmoid,
    "tanh": nn.Tanh,
    "gelu": nn.GELU,
    "silu": nn.SiLU,
    "leaky_relu": lambda: nn.LeakyReLU(0.2),
    "hardtanh": lambda: nn.Hardtanh(-0.6, 1.2),
    "softplus": nn.Softplus,
}
LAYERS: dict[str, Callable[..., nn.Module]] = {
    "linear": nn.Linear,
    "conv1d": nn.Conv1d,
    "conv2d": nn.Conv2d,
    "batch_norm1d": nn.BatchNorm1d,
    "batch_norm2d": nn.BatchNorm2d,
    "max_pool2d": nn.MaxPool2d,
    "avg_pool2d": nn.AvgPool2d,
    "adaptive_avg_pool2d": nn.AdaptiveAvgPool2d,
    "relu": nn.ReLU,
    "flatten": nn.Flatten,
    "dropout": nn.Dropout,
    "add": lambda: Join(torch.add),
    "cat": lambda: Join(lambda first, second: torch.cat([first, second], dim=1)),
    **FUNCTIONS,
}
MATRICES = ("linear", "conv1d", "conv2d")
WEIGHTED = (*MATRICES, "batch_norm1d", "batch_norm2d")
ROUNDINGS = ("nearest_even", "nearest_even", "nearest_away", "floor", "towards_zero")
PRUNED = ("none", "none", "none", "none", "some", "rows", "columns", "weight", "all")
"""Which parameters of a layer are 0; `weight`: all weights, and biases are powers of two."""


class Join(nn.Module):
    """A function of two values."""

    def __init__(self, function: Callable[[Tensor, Tensor], Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, first: Tensor, second: Tensor) -> Tensor:
        return self.function(first, second)


class Network(nn.Module):
    """Layers that each add a value; the last value is the result."""

    def __init__(self, steps: list[Step]) -> None:
        super().__init__()
        self.sources = [sources for _, sources, _ in steps]
        self.layers = nn.ModuleList(LAYERS[kind](**options) for kind, _, options in steps)

    def forward(self, x: Tensor) -> Tensor:
        values = [x]
        for sources, layer in zip(self.sources, self.layers, strict=True):
            values.append(layer(*(values[source] for source in sources)))
        return values[-1]


def draw_network(random: Random) -> Case:
    """Draw the shape of an input, layers, their formats, and which parameters are 0."""
    shape = (random.randint(1, 4), *(random.randint(2, 6) for _ in range(random.choice((0, 0, 1, 2, 2)))))
    shapes: list[Shape] = [shape]
    steps: list[Step] = []
    for count in range(random.randint(1, 7)):
        kinds = ["weights", "weights", "norm", "relu", "relu", "function", "pool", "pool", "flatten", "dropout"]
        kinds = ["weights"] if count == 0 else kinds if count == 1 else [*kinds, "add", "add", "cat"]
        step, made = _draw_step(random, random.choice(kinds), shapes)
        steps.append(step)
        shapes.append(made)
    formats = [_draw_formats(random, kind) for kind, *_ in steps]
    return {"shape": shape, "steps": steps, "formats": formats, "pruned": [random.choice(PRUNED) for _ in steps]}


def _draw_step(random: Random, kind: str, shapes: list[Shape]) -> tuple[Step, Shape]:
    """Draw a step of a kind that reads the newest value, and the shape of its result; `relu` if there is none."""
    at, shape = len(shapes) - 1, shapes[-1]
    channels, *size = shape
    match kind, len(size):
        case "weights", 0:
            outputs = random.randint(1, 6)
            options = {"in_features": channels, "out_features": outputs, "bias": random.random() < 0.7}
            return ("linear", [at], options), (outputs,)
        case "weights", dims:
            options, made = _draw_windows(random, size, random.choice((0, 1, 1, 3)), random.choice((1, 1, 2)))
            groups = random.choice([g for g in (1, 1, 2, 3, 4) if channels % g == 0])
            outputs = groups * random.randint(1, 3)
            options |= {"in_channels": channels, "out_channels": outputs, "groups": groups}
            return (f"conv{dims}d", [at], {**options, "bias": random.random() < 0.7}), (outputs, *made)
        case "norm", dims:
            options = {"num_features": channels, "affine": random.random() < 0.7}
            return ("batch_norm2d" if dims == 2 else "batch_norm1d", [at], options), shape
        case "function", _:
            return (random.choice(list(FUNCTIONS)), [at], {}), shape
        case "pool", 2:
            return _draw_pool(random, at, shape)
        case "flatten", _:
            return ("flatten", [at], {}), (math.prod(shape),)
        case "dropout", _:
            return ("dropout", [at], {}), shape
        case (("add" | "cat"), _):
            alike = [
                i for i in range(1, at + 1) if shapes[i] == shape or (kind == "cat" and shapes[i][1:] == shape[1:])
            ]
            other = random.choice(alike)
            joined = (shapes[other][0] + channels, *size) if kind == "cat" else shape
            return (kind, [other, at], {}), joined
    return ("relu", [at], {}), shape


def _draw_windows(random: Random, size: list[int], padding: int, dilation: int) -> tuple[Case, list[int]]:
    """Draw how a kernel moves over an image, with limits of padding and dilation, and the size of the result."""
    while True:
        options = {
            "kernel_size": [random.randint(1, 3) for _ in size],
            "stride": [random.choice((1, 1, 2, 3)) for _ in size],
            "padding": [random.randint(0, padding) for _ in size],
            "dilation": [random.randint(1, dilation) for _ in size],
        }
        made = [
            (n + 2 * p - d * (k - 1) - 1) // s + 1 for n, k, s, p, d in zip(size, *options.values(), strict=True)
        ]
        if min(made) > 0:
            return {name: tuple(numbers) for name, numbers in options.items()}, made


def _draw_pool(random: Random, at: int, shape: Shape) -> tuple[Step, Shape]:
    channels, *size = shape
    kind = random.choice(("max_pool2d", "avg_pool2d", "adaptive_avg_pool2d"))
    if kind == "adaptive_avg_pool2d":
        made = [random.choice([m for m in range(1, n + 1) if n % m == 0]) for n in size]
        return (kind, [at], {"output_size": tuple(made)}), (channels, *made)
    options, made = _draw_windows(random, size, 1, 2 if kind == "max_pool2d" else 1)
    while any(2 * p > k for p, k in zip(options["padding"], options["kernel_size"], strict=True)):
        options, made = _draw_windows(random, size, 1, 2 if kind == "max_pool2d" else 1)
    if kind == "avg_pool2d":
        del options["dilation"]
    return (kind, [at], options), (channels, *made)


def _draw_formats(random: Random, kind: str) -> dict[str, Case]:
    """Draw the formats of a step by operand; hardware completes or refuses a step without formats."""
    if kind in ("flatten", "dropout"):
        return {}
    if kind in FUNCTIONS:
        formats = {"data_in_0": _draw_integer(random, 7)}
        return formats | ({"data_out_0": _draw_integer(random)} if random.random() < 0.8 else {})
    if random.random() < (0.1 if kind in WEIGHTED else 0.6):
        return {}
    mixed = kind in MATRICES and random.random() < 0.1
    data = {"name": "mixed_integer"} if mixed else _draw_integer(random)
    formats = {"data_in_0": data, "data_in_1": data if random.random() < 0.5 else _draw_integer(random)}
    if kind in WEIGHTED:
        formats |= {"weight": _draw_weight(random), "bias": _draw_integer(random)}
    if random.random() < 0.1:
        formats["data_out_0"] = _draw_integer(random)
    return formats


def _draw_integer(random: Random, widest: int = 12) -> Case:
    width = random.choice((random.randint(1, widest), random.randint(1, min(widest, 6))))
    fraction = random.choice((width // 2, width // 2, random.randint(-3, width + 3)))
    rounding, signed = random.choice(ROUNDINGS), random.random() < 0.85
    return {"name": "integer", "width": width, "frac_width": fraction, "is_signed": signed, "rounding": rounding}


def _draw_weight(random: Random) -> Case:
    match random.choice(("integer", "integer", "channel", "channel", "signs", "signs", "mixed", "float")):
        case "integer":
            return _draw_integer(random)
        case "signs":
            return {"name": random.choice(("binary", "ternary")), "scaling": random.random() < 0.5}
        case "mixed":
            return {"name": "mixed_integer"}
        case kind:
            scale = "float" if kind == "float" and random.random() < 0.1 else "power_of_two"
            width = random.randint(2, 8)
            return {"name": "integer", "width": width, "scale": scale, "granularity": "channel"}


def quantized_graph(case: Case) -> MaseGraph:
    """Return the quantised graph of a case."""
    torch.manual_seed(case["seed"])
    model = Network(case["steps"]).eval()
    for layer, pruned in zip(model.layers, case["pruned"], strict=True):
        _set_parameters(layer, pruned)
    graph = MaseGraph(model)
    init_metadata_analysis_pass(graph, None)
    add_common_metadata_analysis_pass(graph, {"dummy_in": {"x": torch.randn(3, *case["shape"])}})
    metas = [meta for meta in graph.annotated_metas() if meta.op is not None]
    for meta, given in zip(metas, case["formats"], strict=True):
        known = (*meta.operands, "data_out_0")
        formats = {name: _format(own, meta, name) for name, own in given.items() if name in known}
        if formats:
            set_formats(meta, formats)
    return graph


@torch.no_grad()
def _set_parameters(layer: nn.Module, pruned: str) -> None:
    """Draw parameters and the statistics of batch norms, and set some of them to 0."""
    if isinstance(layer, nn.BatchNorm1d | nn.BatchNorm2d):
        for statistic in (layer.running_mean, layer.running_var):
            assert statistic is not None
            statistic.uniform_(0.3, 2)
    for name, parameter in layer.named_parameters():
        parameter.uniform_(-1.5, 1.5)
        if pruned == "some":
            parameter.mul_(torch.rand_like(parameter) < 0.4)
        elif pruned == "rows":
            parameter[0] = 0
        elif pruned == "columns" and parameter.dim() > 1:
            parameter[:, 0] = 0
        elif pruned == "all" or (pruned == "weight" and name == "weight"):
            parameter.zero_()
        elif pruned == "weight":
            parameter.copy_(torch.exp2(torch.randint_like(parameter, -2, 3)) * parameter.sign())


def _format(given: Case, meta: NodeMeta, operand: str) -> Format:
    """Return a format; a mixed one has 0 to 6 bits for each element, or for each channel of an image."""
    parameters = {name: value for name, value in given.items() if name != "name"}
    if given["name"] != "mixed_integer":
        return FORMATS[given["name"]](**parameters)
    tensor = meta.args[operand].shape
    shape = tuple(tensor) if operand == "weight" else tuple(tensor[1:])
    if meta.mase_op != "linear":
        shape = (shape[0], *(1,) * (len(shape) - 1))
    widths = torch.randint(0, 7, shape)
    return MixedInteger.of(widths, widths - torch.randint(0, 4, shape))
