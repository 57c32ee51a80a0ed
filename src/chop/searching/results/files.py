"""What a search leaves behind: the best configuration, the front, and all trials."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import pandas as pd

from chop.display.terminal import launcher
from chop.files import CorruptFileError, atomic_path, read_json, write_json, write_text
from chop.runs import Experiment, RunFolder
from chop.searching.evaluation.basic_train import TUNABLE
from chop.searching.evaluation.objectives import known_metrics
from chop.searching.evaluation.problem import Measurable
from chop.searching.evaluation.qat import TrainingProblem
from chop.searching.plan import Plan
from chop.searching.results.pareto_plot import draw_front
from chop.searching.results.recipe import transform_config, transform_toml
from chop.searching.results.results import Baseline, Results
from chop.searching.space.space import Configs
from chop.searching.study.study import Record, Study
from chop.toml import to_table


def write_results(run: RunFolder, plan: Plan, experiment: Experiment, problem: Measurable, study: Study) -> Results:
    """All files of a search, each whole or as it was; what they tell is returned."""
    results = Results.of(study, plan.objectives, problem.space)
    best = results.best(plan.config.max_drop)
    if best is not None:
        comments = _comments(results, best, plan, problem.num_rows, run)
        write_text(run.best_config, _toml(plan, problem, problem.space.configs(best.params), comments))
    write_text(run.front_table, _front_table(results).to_csv(index=False))
    write_json(run.search_log, _log(plan, problem, study, results), indent=1)
    with atomic_path(run.trials_table) as path:
        _trials_table(results).to_parquet(path, index=False)
    draw_front(results, f"{plan.config.model}, data: {experiment.data.dataset_info.title}", run.front_plot)
    run.write_summary(_summary(plan, experiment, study, results, best))
    return results


def read_log(run: RunFolder) -> dict[str, Any]:
    """Return what the log of a search holds."""
    log = read_json(run.search_log)
    if not isinstance(log.get("trials"), list):
        raise CorruptFileError(f"{run.search_log} is corrupt: it does not hold a list of trials")
    return log


def _toml(plan: Plan, problem: Measurable, configs: Configs, comments: tuple[str, ...] = ()) -> str:
    transform = transform_config(plan.config, problem.units(configs), configs)
    if not isinstance(problem, TrainingProblem):
        return transform_toml(transform, comments)
    how = to_table(problem.how(configs))
    # The `batch_size` below is that of the rows from which formats are chosen.
    told = (*comments, f"It was trained in batches of {how['batch_size']}.")
    return transform_toml(transform, told, {name: how[name] for name in TUNABLE if name != "batch_size"})


def _comments(results: Results, best: Record, plan: Plan, num_rows: int, run: RunFolder) -> tuple[str, ...]:
    names = [name for name in known_metrics() if name in best.metrics]
    numbers = ", ".join(f"{name} {best.metrics[name]:.6g}" for name in names)
    told = (
        f"Trial {best.number}: {results.rule(plan.config.max_drop)}.",
        f"On {num_rows:,} rows of {plan.evaluation.data_loader}: {numbers}.",
    )
    if "epochs" in best.metrics:
        again = f"{launcher()} search --config {run.config} --apply {best.number}"
        return (*told, "These are the formats before the training; with the weights of the trial:", f"  {again}")
    return (*told, f"  {launcher()} transform --config {run.best_config}")


def _front_table(results: Results) -> pd.DataFrame:
    rows = []
    for record in results.front:
        uniform = results.beside(record.metrics)
        beside = {} if uniform is None else _named(uniform, results.cost.name)
        rows.append({"trial": record.number, **record.metrics, **beside, **record.params})
    return pd.DataFrame(rows, columns=None if rows else ["trial"])


def _named(uniform: Baseline, cost: str) -> dict[str, str | float]:
    numbers = {f"uniform_{name}": uniform.metrics[name] for name in ("accuracy", cost)}
    return {"uniform": uniform.label, **numbers}


def _trials_table(results: Results) -> pd.DataFrame:
    front = {record.number for record in results.front}
    table = pd.DataFrame(
        {
            "trial": record.number,
            "state": record.state,
            "seconds": record.seconds,
            "reason": record.reason,
            "front": record.number in front,
            **{f"metric.{name}": value for name, value in record.metrics.items()},
            **{f"param.{name}": value for name, value in record.params.items()},
        }
        for record in results.records
    )
    for name in table.columns:  # a choice between numbers and words has no type of its own in a Parquet file
        if name.startswith("param.") and table[name].dropna().map(type).nunique() > 1:
            table[name] = table[name].map(lambda value: None if pd.isna(value) else str(value))
    return table


def _log(plan: Plan, problem: Measurable, study: Study, results: Results) -> dict[str, Any]:
    front = {record.number for record in results.front}
    trials = [
        _entry(record.number, record.state, record.metrics)
        | {"params": record.params, "front": record.number in front, "reason": record.reason}
        | ({"toml": _toml(plan, problem, problem.space.configs(record.params))} if record.number in front else {})
        for record in results.records
    ]
    uniform = [
        _entry(-1 - place, "complete", each.metrics)
        | {"baseline": each.label, "toml": _toml(plan, problem, each.configs)}
        for place, each in enumerate(results.baselines)
    ]
    metrics = {each.name: {"direction": each.direction, "scale": each.scale} for each in plan.objectives.each}
    return {"study": study.name, "plain": _finite(results.plain), "metrics": metrics, "trials": [*trials, *uniform]}


def _entry(number: int, state: str, metrics: Mapping[str, float]) -> dict[str, Any]:
    """A trial of the log."""
    empty = {"params": {}, "front": False, "baseline": None, "toml": None, "reason": None}
    return {"number": number, "state": state, "metrics": _finite(metrics), **empty}


def _finite(metrics: Mapping[str, float]) -> dict[str, float]:
    """Without what JSON has no word for."""
    return {name: value for name, value in metrics.items() if math.isfinite(value)}


def _summary(
    plan: Plan, experiment: Experiment, study: Study, results: Results, best: Record | None
) -> dict[str, Any]:
    states = [record.state for record in results.records]
    return {
        **experiment.describe("search"),
        "checkpoint": None if plan.config.load_name is None else str(plan.config.load_name),
        "study": study.name,
        "strategy": plan.config.search.strategy.name,
        "trials": {state: states.count(state) for state in sorted(set(states))},
        "plain": _finite(results.plain),
        "best": None if best is None else {"trial": best.number, **_finite(best.metrics)},
        "rule": results.rule(plan.config.max_drop),
        "baselines": {each.label: _finite(each.metrics) for each in results.baselines},
        "unbeaten": [each.label for each in results.unbeaten],
        "front": len(results.front),
    }
