"""Applying a trial: its configuration becomes a graph, which can be fine-tuned."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from chop.config import SearchConfig, TrainConfig, common_options
from chop.display.launcher import option_name
from chop.files import CorruptFileError
from chop.runs import Experiment, RunFolder
from chop.runs.folder import run_prefix
from chop.runs.listing import find_run_to_resume
from chop.runs.run import Run, open_run
from chop.searching.evaluation.problem import Problem
from chop.searching.evaluation.transform_config import transform_config
from chop.searching.results.files import read_log
from chop.searching.results.results import Results
from chop.searching.space import Configuration
from chop.searching.spec import SearchSpec
from chop.training.threads import limit_threads_for
from chop.training.train import train
from chop.transforming.outcome import graph_outcome, write_outcome
from chop.transforming.pipeline import PassResults
from chop.transforming.transform import transform

logger = logging.getLogger(__name__)


def apply_trial(config: SearchConfig) -> RunFolder:
    """Write the graph of trial `config.apply` of an earlier search, and fine-tune it for `config.finetune` epochs.

    Return the run folder of the graph, or that of the fine-tuning.
    """
    run = _find_search(config)
    params = _params_of_trial(read_log(run.folder), config.apply, run.folder)
    assert isinstance(run.config, SearchConfig)
    spec = SearchSpec.read(
        replace(run.config, project_dir=config.project_dir, trust_remote_code=config.trust_remote_code)
    )
    experiment = Experiment.load(spec.config)
    if experiment.data.splits.sha256 != run.summary.get("data", {}).get("sha256"):
        logger.warning("%s was run on different data: its metrics will differ", run.folder.path)
    with limit_threads_for(experiment, spec.config.batch_size):
        problem = spec.problem(experiment)
        return _write_graph(spec, experiment, problem, problem.space.configuration(params), config)


def apply_best(
    spec: SearchSpec, experiment: Experiment, problem: Problem, results: Results, folder: RunFolder
) -> RunFolder:
    """Fine-tune the best trial if `--finetune` asks for it; return the folder of that, or of the search.

    Raises ValueError if no trial keeps `--max-drop`.
    """
    max_drop = spec.config.max_drop
    best = results.best(max_drop).record
    if best is None and results.most_accurate is not None:
        nearest, drop = results.most_accurate, option_name("max_drop")
        lack = f"all trials lose more accuracy than {drop} {max_drop:g}"
        if results.within(max_drop):
            lack = f"no trial keeps {drop} {max_drop:g} both on validation rows and on rows held back"
        raise ValueError(
            f"{lack}; the most accurate, trial {nearest.number}, loses {results.accuracy_drop(nearest):.2f} "
            f"percentage points: offer wider formats, or use more validation rows or a larger {drop}; "
            f"the search is saved in {folder}"
        )
    if best is None or not spec.config.finetune:
        return folder
    return _write_graph(spec, experiment, problem, problem.space.configuration(best.params), spec.config)


def _find_search(config: SearchConfig) -> Run:
    """Return the run of a search: beside the configuration file, that of --study or --name, or the newest."""

    def matches(folder: RunFolder) -> bool:
        return config.study is None or read_log(folder).get("study") == config.study

    folder = find_run_to_resume(config, lambda folder: folder.search_log, matches)
    if folder is None and config.name is not None:  # the name of the new run
        folder = find_run_to_resume(replace(config, name=None), lambda folder: folder.search_log, matches)
    if folder is None:
        study = "" if config.study is None else f" of study '{config.study}'"
        logs = RunFolder(config.project_dir / f"{run_prefix(config)}*").search_log
        raise ValueError(f"found no search{study} with a trial to apply: no file matches {logs}")
    return open_run(folder.path)


def _params_of_trial(log: Mapping[str, Any], number: int | None, folder: RunFolder) -> dict[str, Any]:
    try:
        complete = [each for each in log["trials"] if each["baseline"] is None and each["state"] == "complete"]
        for trial in complete:
            if trial["number"] == number:
                return dict(trial["params"])
        front = ", ".join(str(trial["number"]) for trial in complete if trial["front"])
    except (KeyError, TypeError, ValueError) as error:
        reason = f"a trial is incomplete ({type(error).__name__}: {error})"
        raise CorruptFileError(f"{folder.search_log} is corrupt: {reason}") from error
    raise ValueError(f"{folder.path} has no complete trial {number}; its front is {front or 'empty'}")


def _write_graph(
    spec: SearchSpec, experiment: Experiment, problem: Problem, configuration: Configuration, asked: SearchConfig
) -> RunFolder:
    """Write the graph of a configuration into a new run folder, and fine-tune it in another one if asked."""
    start = time.perf_counter()
    config = transform_config(spec.config, problem.units(configuration), configuration)
    name = None if asked.name == spec.config.name else asked.name  # that of the search would hide it
    if not asked.finetune:
        config = replace(config, name=name)
    trained = problem.trained_graphs(configuration)
    if trained is None:
        folder = transform(config)
    else:
        original, graph = trained
        outcome = graph_outcome(original, PassResults(graph))
        folder = write_outcome(config, experiment.with_model(original.model), outcome, start)
    if not asked.finetune:
        return folder
    logger.info("the graph before fine-tuning is %s", folder.graph)
    options = common_options(replace(config, load_name=folder.graph)) | dict(
        problem.training_options(configuration)
    )
    rate = asked.learning_rate if asked.learning_rate is not None else spec.config.learning_rate
    options |= {"name": name, "max_epochs": asked.finetune} | ({} if rate is None else {"learning_rate": rate})
    return train(TrainConfig(**options))
