"""Large studies, large graphs and many runs: the time and size of what users wait for."""

from __future__ import annotations

import logging
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import optuna
import torch
from torch import Tensor, nn

from benchmarks.results import Result
from benchmarks.search import annotated
from benchmarks.timing import one_thread
from chop.passes.graph import quantize_transform_pass, report_html_analysis_pass
from chop.passes.graph.utils import deepcopy_mase_graph
from chop.reporting.view.routes import respond
from chop.runs import RunFolder
from chop.searching.space import Space
from chop.searching.space.space import OptionChoices
from chop.searching.strategies.optuna import OptunaStrategy, random_params
from chop.searching.study.storage import open_journal, open_memory
from chop.searching.study.study import Study

SUMMARY = (
    "CPU time. Trials: 3,000 trials with 2 objectives and 10 dimensions of 4 choices each, without measuring a "
    "model; the last 500 of them. Journal: 20,000 finished trials. Report: 5,000 nodes, with the original and "
    "activations of 64 rows. Overview: the page of `ch view` with all runs, after the first request."
)
SPACE = Space((), (OptionChoices("s", {f"d{number}": (2, 4, 6, 8) for number in range(10)}),))


def run(quick: bool = False) -> list[Result]:
    logging.getLogger("chop").setLevel(logging.ERROR)
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    num_trials, num_stored, num_blocks = (40, 20, 5) if quick else (3_000, 20_000, 1_250)
    with one_thread(), tempfile.TemporaryDirectory() as folder:
        path = Path(folder)
        report_seconds, megabytes = _report(num_blocks, path / "report.html")
        return [
            Result("trial, tpe", 1e3 * _last_trials("tpe", num_trials), 15.0, "ms"),
            Result("trial, nsga2", 1e3 * _last_trials("nsga2", num_trials), 15.0, "ms"),
            *_journal(num_stored, path),
            Result("report of 5,000 nodes", report_seconds, 15.0, "s"),
            Result("report of 5,000 nodes, size", megabytes, 3.0, "MB"),
            Result("overview of 42 runs", 1e3 * _overview(5 if quick else 42, path / "few"), 20.0, "ms"),
            Result("overview of 1,000 runs", 1e3 * _overview(5 if quick else 1_000, path / "many"), 300.0, "ms"),
        ]


def _seconds(action: Callable[[], object]) -> float:
    start = time.process_time()
    action()
    return time.process_time() - start


def _last_trials(sampler: str, number: int) -> float:
    """Return the seconds per trial of the last 500 trials."""
    study = Study.create(open_memory(), "load", ["maximize", "minimize"])
    assert study is not None, "the storage is empty"
    study.plan([{}] * number, SPACE)
    study.use_samplers(partial(OptunaStrategy(sampler=sampler).make_sampler, 0))
    num_last = min(500, number // 2)
    _run_trials(study, number - num_last)
    return _seconds(lambda: _run_trials(study, num_last)) / num_last


def _run_trials(study: Study, number: int) -> None:
    for _ in range(number):
        trial = study.claim()
        assert trial is not None, "it was planned"
        values = [each for part in study.configuration(trial, SPACE).values() for each in part.values()]
        study.complete(trial, [float(sum(values[:5])), float(sum(values[3:]))], {"accuracy": 0.5})


def _journal(number: int, folder: Path) -> list[Result]:
    study = Study.create(open_journal(RunFolder(folder)), "load", ["maximize", "minimize"])
    assert study is not None, "the journal is empty"
    params = random_params(SPACE, 0)
    study.plan([next(params) for _ in range(number)], SPACE)
    _run_trials(study, number)
    return [
        Result("opening a journal of 20,000 trials", _seconds(lambda: open_journal(RunFolder(folder))), 3.0, "s"),
        Result("the same, and reading all its trials", _seconds(lambda: _resume(folder)), 3.0, "s"),
    ]


def _resume(folder: Path) -> None:
    """Do what a search does that is resumed when all its trials are finished."""
    study = Study.load(open_journal(RunFolder(folder)), "load")
    assert study is not None, "it was created above"
    assert study.claim() is None, "all trials are finished"
    study.records()


class _Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc, self.norm = nn.Linear(8, 8), nn.BatchNorm1d(8)

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(self.norm(self.fc(x))) + x


class _Blocks(nn.Module):
    def __init__(self, number: int) -> None:
        super().__init__()
        self.blocks = nn.Sequential(*[_Block() for _ in range(number)])

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = self.blocks(x)
        return result


def _report(num_blocks: int, path: Path) -> tuple[float, float]:
    """Return the seconds and megabytes of a report; a block has four nodes."""
    original = annotated(_Blocks(num_blocks), torch.randn(2, 8))
    config = {"name": "integer", "weight_width": 8, "weight_frac_width": 6, "data_in_width": 8}
    graph, _ = quantize_transform_pass(
        deepcopy_mase_graph(original), {"by": "type", "linear": {"config": {**config, "data_in_frac_width": 4}}}
    )
    args = {"path": path, "original": original, "input_generator": [{"x": torch.randn(64, 8)}]}
    return _seconds(lambda: report_html_analysis_pass(graph, args)), path.stat().st_size / 1e6


def _overview(num_runs: int, root: Path) -> float:
    for number in range(num_runs):
        folder = RunFolder(root / f"run_{number}")
        folder.path.mkdir(parents=True)
        folder.config.write_text('model = "toy"\ndataset = "jsc"\n')
        folder.write_summary({"action": "train", "model": "toy", "test": {"accuracy": 0.5, "loss": 1.0}})
    respond(root, "/")
    return _seconds(lambda: respond(root, "/"))
