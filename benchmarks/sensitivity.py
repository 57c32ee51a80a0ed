"""Time to measure the sensitivity of every node, relative to running the complete graph each time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import nn

from benchmarks.models import ResNet18
from benchmarks.results import Result
from benchmarks.timing import cpu_times
from chop.ir import MaseGraph
from chop.ir.graph.incremental import IncrementalRun
from chop.ir.graph.interpreter import undisturbed
from chop.passes.graph import (
    add_common_metadata_analysis_pass,
    init_metadata_analysis_pass,
    quantize_transform_pass,
)
from chop.passes.graph.analysis.sensitivity import LabelledReplacements, labelled_replacements, measure_sensitivity
from chop.passes.graph.utils import deepcopy_mase_graph
from chop.passes.quantization.selection import QuantizeArgs
from chop.statistics.deviation import Deviation

SUMMARY = (
    "All linear and convolutional nodes in 8-bit integers, each alone and all but each, on one batch. "
    "`running all` runs the complete graph each time, with the same quantised layers, and measures only the "
    "output; `copying` makes a quantised copy of the graph each time. On average half of a chain depends on a "
    "node, so 0.5 is the best possible ratio. CPU time, one thread, median of repeats; compared runs "
    "alternate."
)
_CONFIG = {"name": "integer", "data_in_width": 8, "data_in_frac_width": 4}
_CHOICE = {"by": "type", "conv2d": {"config": _CONFIG}, "linear": {"config": _CONFIG}}
Batch = Mapping[str, Any]


def run(quick: bool = False) -> list[Result]:
    """Return all results; `quick` is for tests and repeats too rarely for reliable numbers."""
    width = 8 if quick else 256
    layers = [layer for _ in range(16) for layer in (nn.Linear(width, width), nn.ReLU())]
    rows = torch.randn(256, width)
    resnet = ResNet18(width=4 if quick else 64)
    images = torch.randn(1, 3, 32, 32) if quick else torch.randn(4, 3, 64, 64)
    return [
        *_compared(
            "MLP of 16 layers, 256 x 256, 256 rows", nn.Sequential(*layers), {"input": rows}, 1 if quick else 15
        ),
        *_compared("ResNet-18, 4 x 3 x 64 x 64", resnet, {"x": images}, 1 if quick else 5),
    ]


def _compared(name: str, model: nn.Module, batch: Batch, repeats: int) -> list[Result]:
    graph, _ = init_metadata_analysis_pass(MaseGraph(model.eval()))
    graph, _ = add_common_metadata_analysis_pass(graph, {"dummy_in": batch})
    replacements = labelled_replacements(graph, {"8": QuantizeArgs.from_pass_args(_CHOICE, "benchmark")})

    def ours() -> None:
        measure_sensitivity(graph, replacements, [(batch, None)])

    ours_time, complete, copied, plain = cpu_times(
        ours,
        lambda: running_all(graph, replacements, batch),
        lambda: copying(graph, list(replacements), batch),
        lambda: forward(graph, batch),
        repeats=repeats,
        warm_up=min(2, repeats - 1),
    )
    return [
        Result(f"{name}, {len(replacements)} nodes", ours_time / complete, 0.7, "x running all"),
        Result("the same", ours_time / copied, 0.7, "x copying"),
        Result("the same", ours_time / plain / (2 * len(replacements)), float("inf"), "x forward per measurement"),
    ]


def each_way(nodes: list[str], measure: Callable[[list[str]], object]) -> None:
    """Measure each node alone, all nodes, and all but each."""
    for name in nodes:
        measure([name])
    measure(nodes)
    for name in nodes:
        measure([other for other in nodes if other != name])


def running_all(graph: MaseGraph, replacements: LabelledReplacements, batch: Batch) -> None:
    found = {node.name: node for node in graph.fx_graph.nodes}
    with undisturbed(graph.model):
        incremental = IncrementalRun(graph, batch, keep=False)
        plain = incremental.run()

        def measure(names: list[str]) -> None:
            replaced = {found[name]: replacements[name]["8"] for name in names}
            Deviation().add(plain, incremental.run(replaced))

        each_way(list(replacements), measure)


def copying(graph: MaseGraph, nodes: list[str], batch: Batch) -> None:
    plain = forward(graph, batch)

    def measure(names: list[str]) -> None:
        by_name = {name: {"config": _CONFIG} for name in names}
        changed, _ = quantize_transform_pass(deepcopy_mase_graph(graph), {"by": "name", **by_name})
        Deviation().add(plain, forward(changed, batch))

    each_way(nodes, measure)


def forward(graph: MaseGraph, batch: Batch) -> Any:
    with torch.no_grad():
        return graph.model(**batch)
