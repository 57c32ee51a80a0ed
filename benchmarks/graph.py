"""The time from a model to a quantised graph, and start-up times."""

from __future__ import annotations

import statistics
import subprocess
import sys
from pathlib import Path

import torch
from torch import Tensor, nn

from benchmarks.models import ResNet18
from benchmarks.results import Result
from benchmarks.timing import cpu_times, process_times
from chop.dataset import get_dataset_info
from chop.ir import MaseGraph
from chop.models import get_model
from chop.passes.graph import (
    add_common_metadata_analysis_pass,
    add_software_metadata_analysis_pass,
    init_metadata_analysis_pass,
    quantize_transform_pass,
)

SUMMARY = (
    "`flow` is tracing, the init, common and software metadata passes, and quantising. CPU time, one thread, "
    "median of repeats; ratios are between runs that alternate. Start-up includes the interpreter."
)
_ROOT = Path(__file__).parents[1]
_CONFIG = {"config": {"name": "integer", "data_in_width": 8, "data_in_frac_width": 4}}


def run(quick: bool = False) -> list[Result]:
    """Return all measurements; `quick` is for tests, with too few repeats for meaningful numbers."""
    return [*measure_flow(quick), *measure_start(1 if quick else 5)]


def flow(model: nn.Module, x: Tensor) -> MaseGraph:
    """Return the quantised graph of a model: the first steps of every user."""
    graph = MaseGraph(model)
    graph, _ = init_metadata_analysis_pass(graph)
    graph, _ = add_common_metadata_analysis_pass(graph, {"dummy_in": {"x": x}})
    graph, _ = add_software_metadata_analysis_pass(graph)
    graph, _ = quantize_transform_pass(graph, {"by": "type", "conv2d": _CONFIG, "linear": _CONFIG})
    return graph


def measure_flow(quick: bool) -> list[Result]:
    jsc_toy = get_model("jsc-toy", task="cls", dataset_info=get_dataset_info("jsc"))
    rows = torch.randn(8, 16)
    (toy,) = cpu_times(lambda: flow(jsc_toy, rows), repeats=1 if quick else 50)
    resnet = ResNet18(width=8 if quick else 64).eval()
    images = torch.randn(1, 3, 32, 32) if quick else torch.randn(1, 3, 224, 224)

    def forward() -> None:
        with torch.no_grad():
            resnet(images)

    both, plain = cpu_times(lambda: flow(resnet, images), forward, repeats=1 if quick else 15)
    return [
        Result("flow on jsc-toy, batch 8", toy * 1e3, 10.0, "ms"),
        Result("the same, first in a process", first_flow(1 if quick else 9) * 1e3, 10.0, "ms"),
        Result("flow on ResNet-18, 1 x 3 x 224 x 224", both / plain, 5.0, "x forward"),
    ]


_FIRST = """
import torch
from benchmarks.graph import flow, get_dataset_info, get_model
from benchmarks.timing import cpu_times
model = get_model("jsc-toy", task="cls", dataset_info=get_dataset_info("jsc"))
print(*cpu_times(lambda: flow(model, torch.ones(8, 16)), repeats=1, warm_up=0))
"""


def first_flow(repeats: int) -> float:
    """Return the CPU seconds of the first flow after the imports, which fills the caches of torch.fx and chop."""
    command = [sys.executable, "-c", _FIRST]
    return statistics.median(
        float(subprocess.run(command, check=True, capture_output=True, cwd=_ROOT).stdout) for _ in range(repeats)
    )


def measure_start(repeats: int) -> list[Result]:
    python = sys.executable
    imports = ("import torch", "import chop", "import chop.passes")
    commands = [[python, "-c", line] for line in imports] + [[python, "-m", "chop", "--help"]]
    torch_alone, package, passes, usage = process_times(*commands, repeats=repeats)
    return [
        Result("python -c 'import chop'", package / torch_alone, 0.1, "x import torch"),
        Result("python -c 'import chop.passes'", passes / torch_alone, 1.5, "x import torch"),
        Result("ch --help", usage / torch_alone, 0.2, "x import torch"),
    ]
