"""A configuration that was found, put to use."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from chop.actions.config import SearchConfig, TrainConfig
from chop.actions.open_run import Run, open_run
from chop.actions.run_folder import run_prefix
from chop.actions.search.measurable import Measurable
from chop.actions.search.outputs import LOG, read_log
from chop.actions.search.prepare import Plan
from chop.actions.search.recipe import common_options, transform_config
from chop.actions.search.results import Results
from chop.actions.search.runners.basic_train import TUNABLE
from chop.actions.search.space.space import Configs
from chop.actions.search.start import FOLDER
from chop.actions.search.training_problem import TrainingProblem
from chop.actions.setting import Setting, prepare
from chop.actions.train import train
from chop.actions.training.resume import run_to_resume
from chop.actions.transform import outcome_of, transform, write_outcome

logger = logging.getLogger(__name__)


def apply_trial(config: SearchConfig) -> Path:
    """The graph of trial `config.apply` of a search that was run before, trained on for `config.finetune` epochs.

    The folder of the graph is returned; of one that is trained on, that of the training.
    """
    run = _searched(config)
    params = _params(read_log(run.folder / FOLDER / LOG), config.apply, run.folder)
    assert isinstance(run.config, SearchConfig)
    plan = Plan.read(replace(run.config, project_dir=config.project_dir))
    setting = prepare(plan.config)
    if setting.data_hash != run.summary.get("data", {}).get("sha256"):
        logger.warning("the data are not those that %s was searched on: its numbers will be others", run.folder)
    with setting.fitting_threads(plan.config.batch_size):
        problem = plan.problem(setting)
        return _write(plan, setting, problem, problem.space.configs(params), config.finetune)


def use_best(plan: Plan, setting: Setting, problem: Measurable, results: Results, folder: Path) -> Path:
    """The folder of the search, or of the training of its best with `--finetune`; an error if none will do."""
    best = results.best(plan.config.max_drop)
    if best is None and results.most_accurate is not None:
        nearest = results.most_accurate
        raise ValueError(
            f"no trial loses at most {plan.config.max_drop:g} points of accuracy: the most accurate, trial "
            f"{nearest.number}, loses {results.drop(nearest):.2f}; offer wider formats, or a larger --max-drop"
        )
    if best is None or not plan.config.finetune:
        return folder
    return _write(plan, setting, problem, problem.space.configs(best.params), plan.config.finetune)


def _searched(config: SearchConfig) -> Run:
    """The run of a search: the one beside the configuration file, that of --study, or the newest."""

    def fits(folder: Path) -> bool:
        return config.study is None or read_log(folder / FOLDER / LOG).get("study") == config.study

    folder = run_to_resume(config, Path(FOLDER) / LOG, fits)
    if folder is None:
        study = "" if config.study is None else f" of study '{config.study}'"
        raise ValueError(
            f"there is no search{study} to take a trial from: {config.project_dir} has no {run_prefix(config)}* "
            f"with {FOLDER}/{LOG}"
        )
    return open_run(folder)


def _params(log: Mapping[str, Any], number: int | None, folder: Path) -> dict[str, Any]:
    """What was chosen in a trial."""
    complete = [each for each in log["trials"] if each["baseline"] is None and each["state"] == "complete"]
    for trial in complete:
        if trial["number"] == number:
            params: dict[str, Any] = trial["params"]
            return params
    front = ", ".join(str(trial["number"]) for trial in complete if trial["front"])
    raise ValueError(
        f"{folder} has no trial {number} that was measured to the end; its front is {front or 'empty'}"
    )


def _write(plan: Plan, setting: Setting, problem: Measurable, configs: Configs, epochs: int) -> Path:
    """The graph of a configuration in the folder of a run of its own, trained on for so many epochs in another."""
    start = time.perf_counter()
    config = transform_config(plan.config, problem.units(configs), configs)
    how: dict[str, Any] = {}
    if isinstance(problem, TrainingProblem):
        original, graph = problem.trained(configs)
        begun = replace(setting, model=original.model)
        folder = write_outcome(config, begun, outcome_of(original, graph), start)
        how = {name: getattr(problem.how(configs), name) for name in TUNABLE}
    else:
        folder = transform(config)
    if not epochs:
        return folder
    logger.info("the graph before its training: %s", folder)
    options = common_options(replace(config, load_name=folder / "transformed_ckpt"))
    return train(TrainConfig(**{**options, **how, "max_epochs": epochs}))
