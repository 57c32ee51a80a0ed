"""A configuration that was found, put to use."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from chop.config import SearchConfig, TrainConfig
from chop.runs import Experiment, RunFolder
from chop.runs.folder import run_prefix
from chop.runs.listing import find_run_to_resume
from chop.runs.run import Run, open_run
from chop.searching.evaluation.basic_train import TUNABLE
from chop.searching.evaluation.problem import Measurable
from chop.searching.evaluation.qat import TrainingProblem
from chop.searching.plan import Plan
from chop.searching.results.files import read_log
from chop.searching.results.recipe import common_options, transform_config
from chop.searching.results.results import Results
from chop.searching.space.space import Configs
from chop.training.threads import fitting_threads
from chop.training.train import train
from chop.transforming.transform import outcome_of, transform, write_outcome

logger = logging.getLogger(__name__)


def apply_trial(config: SearchConfig) -> RunFolder:
    """The graph of trial `config.apply` of a search that was run before, trained on for `config.finetune` epochs.

    The folder of the graph is returned; of one that is trained on, that of the training.
    """
    run = _searched(config)
    params = _params(read_log(run.folder), config.apply, run.folder)
    assert isinstance(run.config, SearchConfig)
    plan = Plan.read(replace(run.config, project_dir=config.project_dir))
    experiment = Experiment.load(plan.config)
    if experiment.data_hash != run.summary.get("data", {}).get("sha256"):
        logger.warning(
            "the data are not those that %s was searched on: its numbers will be others", run.folder.path
        )
    with fitting_threads(experiment, plan.config.batch_size):
        problem = plan.problem(experiment)
        return _write(plan, experiment, problem, problem.space.configs(params), config.finetune)


def use_best(
    plan: Plan, experiment: Experiment, problem: Measurable, results: Results, folder: RunFolder
) -> RunFolder:
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
    return _write(plan, experiment, problem, problem.space.configs(best.params), plan.config.finetune)


def _searched(config: SearchConfig) -> Run:
    """The run of a search: the one beside the configuration file, that of --study, or the newest."""

    def fits(folder: RunFolder) -> bool:
        return config.study is None or read_log(folder).get("study") == config.study

    folder = find_run_to_resume(config, lambda folder: folder.search_log, fits)
    if folder is None:
        study = "" if config.study is None else f" of study '{config.study}'"
        raise ValueError(
            f"there is no search{study} to take a trial from: {config.project_dir} has no {run_prefix(config)}* "
            f"with search/log.json"
        )
    return open_run(folder.path)


def _params(log: Mapping[str, Any], number: int | None, folder: RunFolder) -> dict[str, Any]:
    """What was chosen in a trial."""
    complete = [each for each in log["trials"] if each["baseline"] is None and each["state"] == "complete"]
    for trial in complete:
        if trial["number"] == number:
            params: dict[str, Any] = trial["params"]
            return params
    front = ", ".join(str(trial["number"]) for trial in complete if trial["front"])
    raise ValueError(
        f"{folder.path} has no trial {number} that was measured to the end; its front is {front or 'empty'}"
    )


def _write(plan: Plan, experiment: Experiment, problem: Measurable, configs: Configs, epochs: int) -> RunFolder:
    """The graph of a configuration in the folder of a run of its own, trained on for so many epochs in another."""
    start = time.perf_counter()
    config = transform_config(plan.config, problem.units(configs), configs)
    how: dict[str, Any] = {}
    if isinstance(problem, TrainingProblem):
        original, graph = problem.trained(configs)
        begun = replace(experiment, model=original.model)
        folder = write_outcome(config, begun, outcome_of(original, graph), start)
        how = {name: getattr(problem.how(configs), name) for name in TUNABLE}
    else:
        folder = transform(config)
    if not epochs:
        return folder
    logger.info("the graph before its training: %s", folder.graph)
    options = common_options(replace(config, load_name=folder.graph))
    return train(TrainConfig(**{**options, **how, "max_epochs": epochs}))
