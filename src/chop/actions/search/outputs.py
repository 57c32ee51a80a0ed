"""What a search leaves behind: the best configuration, the front, and all trials."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from chop.actions.run_folder import describe_run, launcher, whole, write_summary, write_text
from chop.actions.search.measurable import Measurable
from chop.actions.search.objectives import known_metrics
from chop.actions.search.picture import draw_front
from chop.actions.search.prepare import Plan
from chop.actions.search.recipe import transform_config, transform_toml
from chop.actions.search.results import Baseline, Results
from chop.actions.search.runners.basic_train import TUNABLE
from chop.actions.search.space.space import Configs
from chop.actions.search.start import FOLDER
from chop.actions.search.study import Record, Study
from chop.actions.search.training_problem import TrainingProblem
from chop.actions.setting import Setting
from chop.toml import to_table

BEST, FRONT, PICTURE, LOG, TRIALS = "best.toml", "pareto.csv", "pareto.png", "log.json", "trials.parquet"


def write_results(run: Path, plan: Plan, setting: Setting, problem: Measurable, study: Study) -> Results:
    """All files of a search, each whole or as it was; what they tell is returned."""
    results = Results.of(study, plan.objectives, problem.space)
    folder, best = run / FOLDER, results.best(plan.config.max_drop)
    if best is not None:
        comments = _comments(results, best, plan, problem.num_rows, run)
        write_text(folder / BEST, _toml(plan, problem, problem.space.configs(best.params), comments))
    write_text(folder / FRONT, _front_table(results).to_csv(index=False))
    write_text(folder / LOG, json.dumps(_log(plan, problem, study, results), indent=1) + "\n")
    with whole(folder / TRIALS) as path:
        _trials_table(results).to_parquet(path, index=False)
    draw_front(results, f"{plan.config.model}, data: {setting.data.dataset_info.title}", folder / PICTURE)
    write_summary(run, _summary(plan, setting, study, results, best))
    return results


def read_log(path: Path) -> dict[str, Any]:
    """What `log.json` holds."""
    try:
        log = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is damaged: {error}") from error
    if not isinstance(log, dict) or not isinstance(log.get("trials"), list):
        raise ValueError(f"{path} is damaged: it holds no trials")
    return log


def _toml(plan: Plan, problem: Measurable, configs: Configs, comments: tuple[str, ...] = ()) -> str:
    transform = transform_config(plan.config, problem.units(configs), configs)
    if not isinstance(problem, TrainingProblem):
        return transform_toml(transform, comments)
    how = to_table(problem.how(configs))
    # The `batch_size` below is that of the rows from which formats are chosen.
    told = (*comments, f"It was trained in batches of {how['batch_size']}.")
    return transform_toml(transform, told, {name: how[name] for name in TUNABLE if name != "batch_size"})


def _comments(results: Results, best: Record, plan: Plan, num_rows: int, run: Path) -> tuple[str, ...]:
    names = [name for name in known_metrics() if name in best.metrics]
    numbers = ", ".join(f"{name} {best.metrics[name]:.6g}" for name in names)
    told = (
        f"Trial {best.number}: {results.rule(plan.config.max_drop)}.",
        f"On {num_rows:,} rows of {plan.evaluation.data_loader}: {numbers}.",
    )
    if "epochs" in best.metrics:
        again = f"{launcher()} search --config {run / 'run.toml'} --apply {best.number}"
        return (*told, "These are the formats before the training; with the weights of the trial:", f"  {again}")
    return (*told, f"  {launcher()} transform --config {run / FOLDER / BEST}")


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


def _summary(plan: Plan, setting: Setting, study: Study, results: Results, best: Record | None) -> dict[str, Any]:
    states = [record.state for record in results.records]
    return {
        **describe_run("search", plan.config, setting),
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
