"""Time to compute statistics of every activation of a network, relative to a plain forward."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, fx, nn

from benchmarks.models import ResNet18
from benchmarks.results import Result
from benchmarks.timing import cpu_times
from chop.ir import MaseGraph
from chop.passes.graph import (
    add_common_metadata_analysis_pass,
    add_software_metadata_analysis_pass,
    init_metadata_analysis_pass,
    profile_statistics_analysis_pass,
)
from chop.statistics import make_statistic

SUMMARY = (
    "`profile_statistics_analysis_pass` on all nodes of a ResNet-18, images of 3 x 224 x 224, one batch: the "
    "inputs of all nodes, each tensor measured once. `recorder` is the simple alternative: keep the inputs of "
    "every node of a `torch.fx.Interpreter`, then compute torch's min, max and var of each. The state is "
    "measured after each batch of 4096 values. CPU time, one thread, median of repeats; compared runs "
    "alternate."
)
MIN_MAX_VARIANCE: dict[str, Any] = {"range_min_max": {}, "variance_online": {}}


def run(quick: bool = False) -> list[Result]:
    """Return all results; `quick` is for tests and repeats too rarely for reliable numbers."""
    results = []
    for rows in (1, 8):
        results += measure_network(rows, quick)
    return [*results, *measure_size(quick)]


def measure_network(rows: int, quick: bool) -> list[Result]:
    model = ResNet18(width=8 if quick else 64).eval()
    images = torch.randn(rows, 3, 32, 32) if quick else torch.randn(rows, 3, 224, 224)
    graph = annotated(model, images)

    def forward() -> None:
        with torch.no_grad():
            model(images)

    compared: dict[str, tuple[Callable[[], object], float]] = {
        "min, max and variance": (lambda: profile(graph, images, MIN_MAX_VARIANCE), 1.25),
        "the same by the recorder": (lambda: record(graph.model, images), math.inf),
        "summary: quantiles and histogram too": (lambda: profile(graph, images, {"summary": {}}), math.inf),
        "min, max and variance, per channel": (lambda: profile(graph, images, per_channel()), math.inf),
    }
    functions = [function for function, _ in compared.values()]
    plain, *times = cpu_times(forward, *functions, repeats=1 if quick else 7)
    return [
        Result(f"{what}, batch {rows}", taken / plain, bar, "x forward")
        for (what, (_, bar)), taken in zip(compared.items(), times, strict=True)
    ]


def annotated(model: nn.Module, images: Tensor) -> MaseGraph:
    graph, _ = init_metadata_analysis_pass(MaseGraph(model))
    graph, _ = add_common_metadata_analysis_pass(graph, {"dummy_in": {"x": images}, "add_value": False})
    return add_software_metadata_analysis_pass(graph)[0]


def per_channel() -> dict[str, Any]:
    return {name: {"keep": [1]} for name in MIN_MAX_VARIANCE}


def profile(graph: MaseGraph, images: Tensor, statistics: Mapping[str, Any]) -> None:
    args = {
        "target_activation_nodes": ["all"],
        "activation_statistics": statistics,
        "input_generator": [{"x": images}],
        "num_samples": len(images),
    }
    profile_statistics_analysis_pass(graph, args)


class Recorder(fx.Interpreter):
    """Keeps the inputs of every node."""

    def __init__(self, model: fx.GraphModule) -> None:
        super().__init__(model)
        self.kept: list[Tensor] = []

    def run_node(self, n: fx.Node) -> Any:
        args, _ = self.fetch_args_kwargs_from_env(n)
        self.kept += [value.clone() for value in args if isinstance(value, Tensor)]  # later nodes may write into it
        return super().run_node(n)


def record(model: fx.GraphModule, images: Tensor) -> list[tuple[Tensor, Tensor, Tensor]]:
    recorder = Recorder(model)
    with torch.no_grad():
        recorder.run(images)
    return [(tensor.min(), tensor.max(), tensor.var()) for tensor in recorder.kept]


def measure_size(quick: bool) -> list[Result]:
    """Measure the largest size of the state of a summary."""
    statistic = make_statistic("summary", {}, "benchmark")
    largest = [0, 0]
    for half in range(2):
        for _ in range(20 if quick else 500):
            statistic.update(torch.randn(4096))
            size = sum(tensor.nbytes for tensor in statistic.save()[1].values())
            largest[half] = max(largest[half], size)
    return [
        Result("largest state of a summary, in the first 2 million values", largest[0] / 1000, math.inf, "kB"),
        Result("the same, in the next 2 million", largest[1] / 1000, math.inf, "kB"),
    ]
