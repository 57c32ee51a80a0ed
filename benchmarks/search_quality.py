"""Quality of the configurations that each strategy finds, compared with uniform baselines."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import optuna
import torch

from benchmarks.qat import train
from benchmarks.results import Result
from benchmarks.timing import one_thread
from chop.config import SearchConfig
from chop.config.search import SearchTable, SpaceSetup, SpaceTable, StrategyTable
from chop.dataset import MaseDataModule
from chop.models import get_model, get_model_info
from chop.runs import Experiment
from chop.searching.evaluation.problem import Metrics, Problem
from chop.searching.space.baselines import uniform_baselines
from chop.searching.spec import SearchSpec
from chop.searching.study.storage import open_memory
from chop.searching.study.study import Study
from chop.searching.study.worker import Worker

SUMMARY = (
    "jsc-s, trained for 12 epochs on generated jets, linear layers in `integer` with weights and data of 2 to 8 "
    "bits each (five layers, 7^10 configurations), fraction bits `auto`, no training in the search; accuracy on "
    "10,000 test rows, BitOPs by `bops`, 100 trials per strategy. *Shortfall*: the largest number of percentage "
    "points by which a uniform baseline is more accurate than all trials with at most the same BitOPs; 0 means "
    "that the front dominates or equals all baselines. Every search tries the baselines too, so with them the "
    "shortfall is 0; *by itself* excludes them, and compares with the baselines of at least 40 % accuracy. "
    "*BitOPs*: those of the cheapest trial within 0.2 percentage points of the accuracy of uniform 6 bits, "
    "without the baselines; the limit is 0.75. Weights have a power-of-two scale per output channel, or per "
    "tensor, which is the default of the format; with it, uniform 6 bits lies on a steeper slope, and less can be "
    "saved. How much depends on the model, so four models are shown, trained from different seeds."
)
WIDTHS = [2, 3, 4, 5, 6, 7, 8]
CONFIG: dict[str, Any] = {
    "name": ["integer"],
    "data_in_width": WIDTHS,
    "data_in_frac_width": ["auto"],
    "weight_width": WIDTHS,
    "weight_frac_width": ["auto"],
    "bias_width": [8],
    "bias_frac_width": ["auto"],
}
STRATEGIES: Mapping[str, tuple[str, dict[str, Any]]] = {
    "random": ("optuna", {"sampler": "random"}),
    "tpe": ("optuna", {"sampler": "tpe"}),
    "nsga2": ("optuna", {"sampler": "nsga2"}),
    "sensitivity": ("sensitivity", {}),
    "ilp": ("ilp", {}),
}
LIMITED = ("ilp",)
"""Strategies that must save a quarter of the BitOPs."""
MAX_BITOPS_RATIO = 0.75 + 1e-9
SCALES: Mapping[str, dict[str, Any]] = {"channel": {"weight_granularity": ["channel"]}, "tensor": {}}
REFERENCE = "integer, 6 bits"
TOLERANCE = 0.002
MIN_ACCURACY = 0.4
"""Baselines below are hardly better than guessing one of five classes."""


def run(quick: bool = False) -> list[Result]:
    for name in ("chop", "optuna"):
        logging.getLogger(name).setLevel(logging.ERROR)
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    data = MaseDataModule(name="jsc", batch_size=512, model_name="jsc-s", num_rows=2_000 if quick else 50_000)
    data.prepare_data()
    data.setup()
    results: list[Result] = []
    with one_thread():
        for seed in range(1 if quick else 4):
            torch.manual_seed(seed)
            model = get_model("jsc-s", task="cls", dataset_info=data.dataset_info)
            train(model, data.splits, epochs=1 if quick else 12, learning_rate=3e-3)
            experiment = Experiment(
                SearchConfig(model="jsc-s", dataset="jsc"), data, model, get_model_info("jsc-s")
            )
            for scale, options in SCALES.items():
                names = STRATEGIES if seed == 0 else LIMITED
                found = _results(experiment, {**CONFIG, **options}, names, quick)
                kept = [each for each in found if seed == 0 or each.limit == MAX_BITOPS_RATIO]
                results += [replace(each, what=f"scale per {scale}, model {seed}: {each.what}") for each in kept]
    return results


def _results(experiment: Experiment, config: Mapping[str, Any], names: Iterable[str], quick: bool) -> list[Result]:
    results: list[Result] = []
    for name in names:
        spec = _spec(name, config, quick)
        problem = spec.problem(experiment)
        uniform = {label: problem.measure(each) for label, each in uniform_baselines(problem.space).items()}
        if not results:
            results += [_error_rate("float", problem.measure_original())]
            results += [_error_rate(label, each) for label, each in uniform.items()]
        results += _compared(name, _search(spec, problem), uniform)
    return results


def _spec(name: str, config: Mapping[str, Any], quick: bool) -> SearchSpec:
    strategy, setup = STRATEGIES[name]
    table = StrategyTable(
        name=strategy,
        setup={"n_trials": 5 if quick else 100, **setup},
        sw_runner={"basic_evaluation": {"data_loader": "test_dataloader", "num_samples": 10_000}},
        hw_runner={"bitops": {"convention": "bops"}},
    )
    space = SpaceTable(setup=SpaceSetup("type"), seed={"linear": {"config": config}})
    return SearchSpec.read(SearchConfig(model="jsc-s", dataset="jsc", seed=0, search=SearchTable(space, table)))


def _search(spec: SearchSpec, problem: Problem) -> list[Metrics]:
    """Return the metrics of all trials that the strategy planned, without the uniform baselines."""
    study = Study.create(open_memory(), "quality", spec.objectives.directions)
    assert study is not None, "the storage is empty"
    study.plan(spec.strategy.plan(problem, spec.objectives, spec.config.seed), problem.space)
    study.use_samplers(partial(spec.strategy.make_sampler, spec.config.seed))
    Worker(study, problem, spec.objectives).run()
    return [dict(record.metrics) for record in study.records() if record.state == "complete"]


def _compared(name: str, found: Sequence[Metrics], uniform: Mapping[str, Metrics]) -> list[Result]:
    accurate = [each for each in uniform.values() if each["accuracy"] >= MIN_ACCURACY]
    reference = uniform[REFERENCE]
    near = [each for each in found if each["accuracy"] >= reference["accuracy"] - TOLERANCE]
    ratio = min((each["bitops"] for each in near), default=math.inf) / reference["bitops"]
    limit = MAX_BITOPS_RATIO if name in LIMITED else math.inf
    return [
        Result(f"{name}: shortfall", _shortfall([*found, *uniform.values()], [*uniform.values()]), 1e-9, "points"),
        Result(f"{name}: shortfall by itself", _shortfall(found, accurate), math.inf, "points"),
        Result(f"{name}: BitOPs", ratio, limit, "x uniform 6 bits", "" if near else "no trial is accurate enough"),
    ]


def _shortfall(found: Sequence[Metrics], uniform: Sequence[Metrics]) -> float:
    """Return by how many percentage points a baseline is more accurate than all trials that cost no more."""
    lacks = [0.0]
    for each in uniform:
        accuracies = [other["accuracy"] for other in found if other["bitops"] <= each["bitops"]]
        lacks.append(100 * (each["accuracy"] - max(accuracies, default=0.0)))
    return max(lacks)


def _error_rate(label: str, metrics: Metrics) -> Result:
    return Result(f"error rate: {label}", 100 * (1 - metrics["accuracy"]), math.inf, "%")
