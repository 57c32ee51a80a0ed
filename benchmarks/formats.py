"""The speed of number formats: alone, in layers and in training, compared with PyTorch and other libraries."""

from __future__ import annotations

import importlib.util
import math
import warnings
from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import torch
from torch import Tensor, nn

from benchmarks.results import Result
from benchmarks.timing import cpu_times, one_thread, warm_times
from chop.allocator import keep_freed_memory
from chop.formats import FORMATS, Format, parameters
from chop.formats.integer import Integer
from chop.formats.kernels.compiler import is_available
from chop.formats.kernels.run import settings
from chop.nn.quantized import QuantizedLayer, quantize_layer

SUMMARY = (
    "CPU time, one thread. Quantising is compared with `copy_` of the same tensor: the minimum of repeated calls, "
    "with the data in the cache. `eager` are the definitions in PyTorch, which run without numba; other rows use "
    "the compiled loops (`chop.formats.kernels`) if it is there, and so do the layers. Layers are compared with "
    "`nn.Linear`: the median of repeats that alternate, so that no one finds its data in the cache. Blocks have 32 "
    "elements. Freed memory is kept (`chop.allocator`) in all measurements."
)
_BARS = {"integer": 1.5, "block_fp": 3.0, "mxint": 3.0, "mxfp": 4.0, "nvfp4": 4.0}
_BARS |= dict.fromkeys(("log", "ternary", "binary"), 5.0)
_MINIFLOATS = ("fp8", "minifloat_ieee", "minifloat_denorm", "bfloat16", "float16")


def run(quick: bool = False) -> list[Result]:
    """Return all measurements; `quick` is for tests, with too few repeats for meaningful numbers."""
    keep_freed_memory()
    repeats, many = (1, 1) if quick else (60, 300)
    return [
        *measure_quantising(many),
        *measure_layers("1024 -> 1024, batch 256", 1024, 1024, 256, repeats, (1.15, 1.10), (1.6, 1.4)),
        *measure_layers("16 -> 64, batch 1024", 16, 64, 1024, many, (1.4, 1.2), None),
        *measure_peers(repeats),
        *measure_cache(),
        *measure_memory(),
    ]


def format_of(name: str) -> Format:
    """Return a format with default parameters, except for blocks of 32."""
    has_blocks = "block_size" in {parameter.name for parameter in parameters(FORMATS[name])}
    return FORMATS[name](block_size=32) if has_blocks else FORMATS[name]()  # type: ignore[call-arg]


def measure_quantising(repeats: int) -> list[Result]:
    x, out = torch.randn(256, 1024), torch.empty(256, 1024)
    names = [name for name in FORMATS if name != "float"]
    formats = [format_of(name) for name in names]
    names += [f"integer, float scale per {each}" for each in ("tensor", "channel", "row")]
    formats += [Integer(8, scale="float", granularity=each, channel_dim=0) for each in ("tensor", "channel", "row")]
    calls: list[Callable[[], object]] = [lambda: out.copy_(x)]
    calls += [lambda f=f: f.quantize(x) for f in formats]  # type: ignore[misc]
    calls += [lambda f=f: _eager(f, x) for f in formats]  # type: ignore[misc]
    copy, *times = warm_times(*calls, repeats=repeats)
    bars = {**_BARS, **dict.fromkeys(_MINIFLOATS, 2.5)} if is_available() else {}
    rows = [(name, bars.get(name, math.inf)) for name in names] + [(f"{name}, eager", math.inf) for name in names]
    return [
        Result(f"quantise 256 x 1024: {what}", time / copy, bar, "x copy_")
        for (what, bar), time in zip(rows, times, strict=True)
    ]


def _eager(number_format: Format, x: Tensor) -> Tensor:
    """Round without compiled loops."""
    settings.enabled = False
    try:
        return number_format.quantize(x)
    finally:
        settings.enabled = True


def linear(name: str, inputs: int, outputs: int) -> QuantizedLayer:
    """Return a quantised linear layer, as the passes create it."""
    number_format = format_of(name)
    formats = {
        "data_in_0": number_format.for_operand(-1, None),
        "weight": number_format.for_operand(-1, 0),
        "bias": number_format.for_operand(-1, None),
    }
    return quantize_layer(nn.Linear(inputs, outputs), formats, type(number_format).__name__)


def evaluation(layer: nn.Module, x: Tensor) -> Callable[[], object]:
    layer.eval()

    def call() -> None:
        with torch.no_grad():
            layer(x)

    return call


def training(layer: nn.Module, x: Tensor) -> Callable[[], object]:
    """Return a function that runs forward, backward and one step of SGD."""
    layer.train()
    optimiser = torch.optim.SGD(layer.parameters(), lr=1e-3)

    def call() -> None:
        optimiser.zero_grad()
        layer(x).square().mean().backward()
        optimiser.step()

    return call


def measure_layers(
    what: str,
    inputs: int,
    outputs: int,
    batch: int,
    repeats: int,
    integer_bars: tuple[float, float],
    any_bars: tuple[float, float] | None,
) -> list[Result]:
    x = torch.randn(batch, inputs)
    names = [name for name in FORMATS if name != "float"] if any_bars else ["integer"]
    results = []
    for kind, mode, bar, any_bar in (
        ("evaluation", evaluation, integer_bars[0], any_bars[0] if any_bars else 0),
        ("training step", training, integer_bars[1], any_bars[1] if any_bars else 0),
    ):
        layers = [nn.Linear(inputs, outputs), *(linear(name, inputs, outputs) for name in names)]
        plain, *times = cpu_times(*[mode(layer, x) for layer in layers], repeats=repeats)
        ratios = dict(zip(names, (time / plain for time in times), strict=True))
        results.append(Result(f"LinearInteger {what}, {kind}", ratios["integer"], bar, "x nn.Linear"))
        if any_bars:
            slowest = max(ratios, key=lambda name: ratios[name])
            results.append(
                Result(f"slowest format ({slowest}) {what}, {kind}", ratios[slowest], any_bar, "x nn.Linear")
            )
    return results


def measure_peers(repeats: int) -> list[Result]:
    """Measure the same layer in 8 bits with other libraries, if they are installed."""
    x, plain = torch.randn(256, 1024), nn.Linear(1024, 1024)
    results = []
    for name, make in (("Brevitas", _brevitas), ("torchao", _torchao)):
        if importlib.util.find_spec(name.lower()) is None:
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            peer = make(x)
            for kind, mode in (("evaluation", evaluation), ("training step", training)):
                base, theirs = cpu_times(mode(plain, x), mode(peer, x), repeats=repeats)
                what = f"peer: {name}, 8 bits, 1024 -> 1024, batch 256, {kind}"
                results.append(Result(what, theirs / base, math.inf, "x nn.Linear"))
    return results


def _brevitas(x: Tensor) -> nn.Module:
    import brevitas.nn as qnn
    from brevitas.quant import Int8ActPerTensorFixedPoint, Int8WeightPerTensorFixedPoint

    quantisers = {"weight_quant": Int8WeightPerTensorFixedPoint, "input_quant": Int8ActPerTensorFixedPoint}
    layer: nn.Module = qnn.QuantLinear(1024, 1024, bias=True, **quantisers)
    for _ in range(5):  # it collects statistics first
        layer(x)
    return layer


def _torchao(x: Tensor) -> nn.Module:
    from torchao.quantization.qat import IntxFakeQuantizeConfig
    from torchao.quantization.qat.linear import FakeQuantizedLinear

    weights = IntxFakeQuantizeConfig(torch.int8, "per_channel", is_symmetric=True)
    activations = IntxFakeQuantizeConfig(torch.int8, "per_token", is_symmetric=False)
    layer: nn.Module = FakeQuantizedLinear.from_linear(nn.Linear(1024, 1024), activations, weights)
    return layer


def measure_cache() -> list[Result]:
    """Count how often an unchanged weight is rounded in ten evaluations after the first."""
    layer, x = linear("integer", 64, 64).eval(), torch.randn(4, 64)
    weight = layer.get_parameter("weight")
    counted = 0
    original = Integer.quantize

    def quantize(number_format: Integer, value: Tensor, scale: Tensor | None = None) -> Tensor:
        nonlocal counted
        counted += value is weight
        return original(number_format, value, scale)

    with torch.no_grad():
        layer(x)
        with patch.object(Integer, "quantize", quantize):
            for _ in range(10):
                layer(x)
    return [Result("weights rounded again in 10 evaluations", counted, 1, "times")]


def measure_memory() -> list[Result]:
    """Measure the peak memory of activations in a deep network, relative to plain PyTorch."""

    def peak(quantised: bool, training: bool, rows: int) -> float:
        layers: list[nn.Module] = []
        for _ in range(8):
            layers += [linear("integer", 256, 256) if quantised else nn.Linear(256, 256), nn.ReLU()]
        model, x = nn.Sequential(*layers).train(training), torch.randn(rows, 256)
        with torch.no_grad():
            model.eval()(x[:1])  # the weights are rounded and kept before
        model.train(training)
        with one_thread(), torch.set_grad_enabled(training), torch.profiler.profile(profile_memory=True) as profile:
            model(x)
        return _highest(profile)

    return [
        Result(
            f"peak memory of a forward, {rows} rows of 256, {kind}",
            peak(True, training, rows) / peak(False, training, rows),
            1.3,
            "x float",
        )
        for rows in (2048, 4095, 16384)
        for kind, training in (("evaluation", False), ("training", True))
    ]


def _highest(profile: torch.profiler.profile) -> float:
    """Return the peak of allocated memory from the records of the profiler."""
    events: Any = profile.profiler.kineto_results.events()  # type: ignore[union-attr]
    changes = [(e.start_ns(), e.nbytes()) for e in events if e.name() == "[memory]"]
    total = highest = 0
    for _, change in sorted(changes):
        total += change
        highest = max(highest, total)
    return float(highest)
