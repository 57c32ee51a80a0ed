"""How often `ch search --max-drop` keeps its budget on test rows, and what that costs."""

from __future__ import annotations

import json
import logging
import math
import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from statistics import mean, median
from typing import Any

import optuna
import torch

from benchmarks.results import Result
from benchmarks.timing import one_thread
from chop.config import SearchConfig, TrainConfig
from chop.runs import Experiment
from chop.searching.evaluation.ptq import PTQProblem
from chop.searching.results.results import Results
from chop.searching.space.baselines import uniform_baselines
from chop.searching.spec import SearchSpec
from chop.searching.study.storage import open_memory
from chop.searching.study.study import Study, TrialRecord
from chop.searching.study.worker import Worker
from chop.training.budget import TEST
from chop.training.loop import train_epochs

MAX_DROP = 1.0
SUMMARY = (
    "`ch search --max-drop 1` in its default space (fixed-point numbers of 2 to 8 bits, strategy `ilp`), with 40 "
    "trials and the uniform baselines, on 20 models of each kind, each trained from its own seed (200 to 219), "
    "which also divides the rows: `jsc-toy` on generated jets (10 epochs, learning rate 0.01; 36,000 training, "
    "4,000 validation and 10,000 test rows) and `toy-convnet` on digits (25 epochs, learning rate 0.003; 1,294, "
    "144 and 359 rows). *Within the budget*: share of searches whose choice loses at most one percentage point on "
    "test rows, as measured. *Validation only*: the same if the cheapest trial within one point on validation "
    "rows is chosen, without a margin and without rows held back. *Sure*: only the searches that do not say *not "
    "sure*, which they do if no trial keeps the budget with 95 % confidence. *BitOPs*: those of the choice, "
    "relative to the cheapest trial that loses at most one point on test rows; some of these do so by luck, "
    "because test rows are a sample too."
)
FOLDER = os.environ.get("BUDGET_FOLDER")
"""Where finished searches are kept, so that an interrupted benchmark continues; not set: a temporary folder."""
SEEDS = range(200, 220)
"""Not those of the models on which the rule was designed."""


@dataclass(frozen=True)
class Case:
    """A model with its data, and how it is trained."""

    model: str
    dataset: str
    epochs: int
    learning_rate: float
    batch_size: int


CASES = {
    "jsc-toy": Case("jsc-toy", "jsc", 10, 0.01, 256),
    "toy-convnet": Case("toy-convnet", "digits", 25, 0.003, 64),
}


@dataclass(frozen=True)
class Found:
    """Losses on test rows in percentage points, and bit operations, of one search."""

    loss: float
    bitops: float
    is_sure: bool
    loss_validation_only: float
    cheapest: float
    """Bit operations of the cheapest trial that loses at most the budget on test rows; infinite: there is none."""


def run(quick: bool = False, cases: Sequence[str] = ()) -> list[Result]:
    """Return all measurements; `quick` is for tests, with one seed and one epoch."""
    for name in ("chop", "optuna"):
        logging.getLogger(name).setLevel(logging.ERROR)
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    results: list[Result] = []
    with tempfile.TemporaryDirectory() as temporary, one_thread():
        folder = Path(temporary if quick or FOLDER is None else FOLDER)
        for name, case in CASES.items():
            if not cases or any(name.startswith(each) for each in cases):
                found = [_kept(folder, case, seed, quick) for seed in SEEDS[: 1 if quick else None]]
                results += _results(name, found)
    return results


def _results(name: str, found: Sequence[Found]) -> list[Result]:
    ratios = [each.bitops / each.cheapest for each in found]
    sure = [each for each in found if each.is_sure]
    counts: Mapping[str, tuple[int, int]] = {
        "within the budget": (sum(each.loss <= MAX_DROP for each in found), len(found)),
        "within the budget, sure": (sum(each.loss <= MAX_DROP for each in sure), len(sure)),
        "within the budget, validation only": (
            sum(each.loss_validation_only <= MAX_DROP for each in found),
            len(found),
        ),
    }
    return [
        *(
            Result(f"{name}: {what}", 100 * count / max(1, total), math.inf, "%", f"{count} of {total}")
            for what, (count, total) in counts.items()
        ),
        Result(f"{name}: largest loss", max(each.loss for each in found), math.inf, "points"),
        Result(f"{name}: BitOPs, median", median(ratios), math.inf, "x cheapest that keeps it"),
        Result(f"{name}: BitOPs, mean", mean(ratios), math.inf, "x cheapest that keeps it"),
    ]


def _kept(folder: Path, case: Case, seed: int, quick: bool) -> Found:
    """Return what a search finds, from its file if it has run before."""
    path = folder / f"{case.model}-{seed}.json"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(asdict(_search(case, seed, quick))), encoding="utf-8")
    content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return Found(**content)


def _search(case: Case, seed: int, quick: bool) -> Found:
    names: dict[str, Any] = {"model": case.model, "dataset": case.dataset, "seed": seed, "accelerator": "cpu"}
    config = SearchConfig(**names, max_drop=MAX_DROP)
    experiment = Experiment.load(config)
    rate, epochs = case.learning_rate, 1 if quick else case.epochs
    training = TrainConfig(**names, max_epochs=epochs, learning_rate=rate, batch_size=case.batch_size)
    torch.manual_seed(seed)
    for _ in train_epochs(experiment.model.train(), experiment.data.splits.train, training):
        pass
    spec = SearchSpec.read(config)
    problem = spec.problem(experiment)
    assert isinstance(problem, PTQProblem)
    results = Results(spec.objectives, problem.measure_original(), (), _trials(spec, problem, seed))
    budget = spec.budget(experiment, problem)
    assert budget is not None, "max_drop is given"
    test = budget.rows[TEST]
    accuracy = problem.correct(None)(test).double().mean().item()

    def loss(record: TrialRecord) -> float:
        right = problem.correct(problem.space.configuration(record.params))(test)
        return round(100 * (accuracy - right.double().mean().item()), 9)

    measured = results.best(MAX_DROP).record or results.most_accurate
    choice = results.checked(
        budget, lambda record: problem.correct(problem.space.configuration(record.params)), prefilter=True
    ).choice
    # Without a choice the search ends with an error that names the most accurate trial.
    best = results.most_accurate if choice is None else choice.candidate
    assert best is not None
    assert measured is not None
    keeping = [record.metrics["bitops"] for record in results.complete if loss(record) <= MAX_DROP]
    is_sure = choice is not None and choice.is_sure
    cheapest = min(keeping, default=math.inf)
    return Found(loss(best), best.metrics["bitops"], is_sure, loss(measured), cheapest)


def _trials(spec: SearchSpec, problem: PTQProblem, seed: int) -> list[TrialRecord]:
    """Return the trials that the strategy plans, and the uniform baselines that the space has."""
    study = Study.create(open_memory(), "budget", spec.objectives.directions)
    assert study is not None, "the storage is empty"
    planned = [*spec.strategy.plan(problem, spec.objectives, seed)]
    uniform = (problem.space.params(each) for each in uniform_baselines(problem.space).values())
    planned += [each for each in uniform if each is not None and each not in planned]
    study.plan(planned, problem.space)
    study.use_samplers(partial(spec.strategy.make_sampler, seed))
    Worker(study, problem, spec.objectives).run()
    return study.records()
