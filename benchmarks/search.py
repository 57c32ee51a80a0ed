"""Time per trial, compared with copying and quantising the model for each configuration."""

from __future__ import annotations

import itertools
import logging
import math
import random
import tempfile
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from benchmarks.results import Result
from benchmarks.search_workers import measure_workers
from benchmarks.timing import cpu_times, one_thread
from chop.allocator import keep_freed_memory
from chop.config.search import SpaceSetup, SpaceTable
from chop.dataset import MaseDataModule, Rows
from chop.ir import MaseGraph
from chop.models import get_model
from chop.passes.graph import (
    add_common_metadata_analysis_pass,
    init_metadata_analysis_pass,
    quantize_transform_pass,
)
from chop.passes.graph.utils import deepcopy_mase_graph
from chop.runs import RunFolder
from chop.searching.evaluation import default_cost_runners
from chop.searching.evaluation.costs import Costs
from chop.searching.evaluation.evaluator import Evaluator
from chop.searching.evaluation.objectives import Objectives
from chop.searching.evaluation.ptq import PTQProblem
from chop.searching.space import read_space
from chop.searching.strategies import STRATEGIES
from chop.searching.study.storage import open_journal, open_memory
from chop.searching.study.study import Study
from chop.searching.study.worker import Worker

SUMMARY = (
    "One trial of a search, one thread: jsc-s on 10,000 generated jets, linear layers in `integer` with 3 data "
    "widths and 4 weight widths, configurations drawn at random; compared with a deep copy, the quantise pass "
    "and batches of 256 in the same run. The numbers are CPU time, except for the journal file, which waits for "
    "the disk, and for two workers, whose trials of 10 ms leave the processor idle. Below: the same number of "
    "rows through chains of 4, 16 and 64 layers of width 32, in which a trial changes only the first or the "
    "last layer."
)
CONFIG = {
    "name": ["integer"],
    "data_in_width": [4, 6, 8],
    "data_in_frac_width": ["NA"],
    "weight_width": [2, 4, 6, 8],
    "weight_frac_width": ["NA"],
    "bias_width": [8],
    "bias_frac_width": ["NA"],
}


def run(quick: bool = False) -> list[Result]:
    logging.getLogger("chop").setLevel(logging.ERROR)
    keep_freed_memory()  # as the command line does
    data = MaseDataModule(name="jsc", batch_size=256, model_name="jsc-s", num_rows=2_000 if quick else 20_000)
    data.prepare_data()
    data.setup()
    torch.manual_seed(0)
    model = get_model("jsc-s", dataset_info=data.dataset_info)
    train = data.splits.train
    rows = Rows(train.features[:10_000], train.labels[:10_000])
    graph = annotated(model, rows.features[:256])
    repeats = 1 if quick else 5
    with one_thread():
        ours = min(_trials(graph, rows, 3 if quick else 200) for _ in range(repeats))
        copying = min(_copying_trials(graph, rows, 1 if quick else 20) for _ in range(repeats))
        journal = min(_journal_trials(graph, rows, 3 if quick else 150) for _ in range(min(2, repeats)))
        return [
            Result("trial, study in memory", 1e3 * ours, 1e3 / 400, "ms"),
            Result("the same, compared with copying the model", ours / copying, 0.25, "x"),
            Result("copying the model", 1e3 * copying, math.inf, "ms"),
            Result("one forward run in float", 1e3 * _forward(model, rows), math.inf, "ms"),
            Result("trial, journal file", 1e3 * journal, 6.0, "ms"),
            *_workers(quick),
            *_by_depth(rows, 2 if quick else 40, (4,) if quick else (4, 16, 64)),
        ]


def _workers(quick: bool) -> list[Result]:
    """Run real `ch search` commands, except in a quick run."""
    if quick:
        return []
    one, two = measure_workers()
    return [
        Result("trial of 10 ms, two workers compared with one", one.rate / two.rate, 1 / 1.9, "x"),
        Result("start of two workers, longer than of one", two.overhead - one.overhead, 2.0, "s"),
    ]


def annotated(model: nn.Module, rows: torch.Tensor) -> MaseGraph:
    graph, _ = init_metadata_analysis_pass(MaseGraph(model.eval()), None)
    graph, _ = add_common_metadata_analysis_pass(graph, {"dummy_in": {"x": rows}})
    return graph


def _problem(graph: MaseGraph, rows: Rows) -> PTQProblem:
    metas = graph.annotated_metas()
    space = read_space(SpaceTable(setup=SpaceSetup("type"), seed={"linear": {"config": CONFIG}}), metas)
    costs = Costs(metas, default_cost_runners())
    return PTQProblem(space, Evaluator(graph, "x", rows), costs)


def _trials(graph: MaseGraph, rows: Rows, number: int) -> float:
    """Return the CPU seconds per trial, including Optuna, with the study in memory."""
    worker = _worker(_problem(graph, rows), number, None)
    start = time.process_time()
    count = worker.run()
    return (time.process_time() - start) / count


def _journal_trials(graph: MaseGraph, rows: Rows, number: int) -> float:
    with tempfile.TemporaryDirectory() as folder:
        worker = _worker(_problem(graph, rows), number, RunFolder(Path(folder)))
        start = time.perf_counter()
        count = worker.run()
        return (time.perf_counter() - start) / count


def _worker(problem: PTQProblem, number: int, folder: RunFolder | None) -> Worker:
    objectives = Objectives.read({})
    storage = open_memory() if folder is None else open_journal(folder)
    study = Study.create(storage, "speed", objectives.directions)
    assert study is not None, "the storage is empty"
    setup: dict[str, Any] = {"n_trials": number, "sampler": "random"}
    study.plan(STRATEGIES["optuna"](**setup).plan(problem, objectives, 0), problem.space)
    return Worker(study, problem, objectives)


def _forward(model: nn.Module, rows: Rows) -> float:
    with torch.no_grad():
        return cpu_times(lambda: model(rows.features), repeats=20)[0]


def _copying_trials(graph: MaseGraph, rows: Rows, number: int) -> float:
    """Return the CPU seconds per trial of copying the model, quantising it and running it batch by batch."""
    problem = _problem(graph, rows)
    generator = random.Random(0)
    start = time.process_time()
    for _ in range(number):
        configuration = problem.space.draw(lambda dimension: generator.choice(dimension.choices))
        by_name = {name: {"config": config} for name, config in configuration.items()}
        changed, _ = quantize_transform_pass(deepcopy_mase_graph(graph), {"by": "name", **by_name})
        with torch.no_grad():
            for features, labels in zip(rows.features.split(256), rows.labels.split(256), strict=True):
                logits = changed.model(features)
                F.cross_entropy(logits, labels, reduction="sum").item()
                (logits.argmax(dim=1) == labels).sum().item()
    return (time.process_time() - start) / number


def _by_depth(rows: Rows, number: int, depths: tuple[int, ...]) -> list[Result]:
    results = []
    for depth in depths:
        widths = [rows.features.shape[1], *[32] * (depth - 1), 5]
        model = nn.Sequential(*[nn.Linear(before, after) for before, after in pairwise(widths)])
        graph = annotated(_Chain(model), rows.features[:256])
        problem = _problem(graph, rows)
        for which, index in (("first", 0), ("last", -1)):
            seconds = _one_changed(problem, problem.space.units[index].name, number)
            results.append(Result(f"{depth} layers, the {which} changed", 1e3 * seconds, math.inf, "ms"))
    return results


class _Chain(nn.Module):
    def __init__(self, layers: nn.Sequential) -> None:
        super().__init__()
        self.layers = layers

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.layers(x)
        return y


def _one_changed(problem: PTQProblem, name: str, number: int) -> float:
    """Return the CPU seconds per trial if each trial changes one layer to a config that it did not have before."""
    configuration = problem.space.draw(lambda dimension: dimension.choices[-1])
    widths = itertools.islice(itertools.product(range(2, 17), range(2, 17)), number + 2)
    changed = [{**configuration[name], "weight_width": weight, "data_in_width": data} for weight, data in widths]
    unit = next(unit for unit in problem.space.units if unit.name == name)
    for config in changed:
        problem.quantized_unit(unit, config)  # made once per config of a layer, so not measured
    for config in changed[:2]:
        problem.measure({**configuration, name: config})
    start = time.process_time()
    for config in changed[2:]:
        problem.measure({**configuration, name: config})
    return (time.process_time() - start) / number
