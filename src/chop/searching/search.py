"""Running a search: plan the trials, run them, and write and show the results."""

from __future__ import annotations

import logging
import math
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import optuna

from chop.config import SearchConfig
from chop.display.launcher import launcher, option_name
from chop.display.numbers import counted
from chop.runs import Experiment, RunFolder
from chop.searching.apply import apply_best, apply_trial
from chop.searching.evaluation.problem import Problem
from chop.searching.results.files import ResultFiles
from chop.searching.results.results import Results
from chop.searching.results.terminal import SearchProgress, show_results
from chop.searching.spec import SearchSpec
from chop.searching.study.open_study import StudyLocation, open_study, with_storage_of_resumed_run
from chop.searching.study.processes import WorkerJob, prepare_workers, run_workers
from chop.searching.study.storage import MEMORY, database_errors_explained
from chop.searching.study.study import Study
from chop.searching.study.worker import Worker
from chop.training.interrupt import Interrupt
from chop.training.threads import limit_threads_for
from chop.transforming.pipeline import pass_messages_from

logger = logging.getLogger(__name__)


def search(config: SearchConfig) -> Path:
    """Run the search of a configuration and return its run folder; with `finetune`, that of the training.

    With `apply` no search is run, and the folder is that of the new graph.
    """
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    if config.apply is not None:
        folder = apply_trial(config)
        return folder.path if config.finetune else folder.transform
    config = with_storage_of_resumed_run(config)
    spec = SearchSpec.read(config)
    num_workers = config.workers or spec.strategy.n_jobs
    if config.storage == MEMORY and num_workers > 1:
        raise ValueError(
            f"{option_name('storage')} memory allows only one worker, got {num_workers}: "
            "processes do not share memory"
        )
    if num_workers > 1:
        prepare_workers()
    with database_errors_explained(config.storage):
        location = StudyLocation.find(config)
        experiment = Experiment.load(config)
        spec.warn(experiment)
        with limit_threads_for(experiment, config.batch_size):
            with pass_messages_from(logging.WARNING):
                problem = spec.problem(experiment)
                end = time.monotonic() + (math.inf if spec.strategy.timeout is None else spec.strategy.timeout)
                with open_study(spec, experiment, problem, location) as (folder, study):
                    experiment.log_data()
                    results = Search(spec, experiment, problem, folder, study, num_workers, end).run()
            return apply_best(spec, experiment, problem, results, folder).path


@dataclass(frozen=True)
class Search:
    """A study with its trials planned, and everything that is needed to run them."""

    spec: SearchSpec
    experiment: Experiment
    problem: Problem
    folder: RunFolder
    study: Study
    num_workers: int
    end: float
    """The time of the monotonic clock after which no new trial is started."""

    def run(self) -> Results:
        """Run trials until all are finished, the time is over or the user interrupts; write the results."""
        interrupted = False
        if self._num_unfinished:
            interrupted = self._run_trials()
        else:
            message = "all %d trials are finished; use a larger %s to add more"
            logger.info(message, self.study.num_planned, option_name("n_trials"))
        results = self._save(checks_budget=not interrupted)
        rows = f"{counted(self.problem.num_rows, 'row')} of {self.spec.evaluation.data_loader}"
        original = "original model, quantised" if self.experiment.starts_quantized else "original model"
        show_results(results, self.spec.config.max_drop, self.folder, rows, original)
        if self._num_unfinished:
            self._show_how_to_resume()
        if interrupted:
            raise KeyboardInterrupt(
                "" if self._num_unfinished else "all trials are finished, and the results are saved"
            )
        return results

    def _run_trials(self) -> bool:
        """Run trials and show the progress; return whether the user interrupted them."""
        progress = SearchProgress(
            self.study, self.spec.objectives, self.spec.strategy.save_every_n_trials, self._save
        )
        try:
            with Interrupt() as interrupt:
                self._work(lambda: interrupt.requested, progress.tick)
        except KeyboardInterrupt:
            self._show_how_to_resume()
            raise
        finally:
            progress.close()
        return interrupt.requested

    def _save(self, *, checks_budget: bool = False) -> Results:
        files = ResultFiles(self.folder, self.spec, self.experiment, self.problem)
        return files.write(self.study, checks_budget=checks_budget)

    @property
    def _num_unfinished(self) -> int:
        return self.study.count("waiting", "running")

    def _work(self, stop: Callable[[], bool], tick: Callable[[], None]) -> None:
        """Run trials in worker processes if there are several workers; the rest, or all, in this process."""
        self.study.retry_lost_trials()
        if self.num_workers > 1 and self.study.count("waiting"):
            seconds_left = self.end - time.monotonic()
            job = WorkerJob(self.spec.config, self.folder, self.study.name, self.num_workers, seconds_left)
            run_workers(job, stop, tick)
        strategy = self.spec.strategy
        self.study.use_samplers(partial(strategy.make_sampler, self.spec.config.seed))
        objectives, prunes = self.spec.objectives, strategy.halving
        Worker(self.study, self.problem, objectives, prunes, self.end, stop, tick=tick).run()

    def _show_how_to_resume(self) -> None:
        if self.spec.config.storage == MEMORY:
            return
        command = f"{launcher()} search --config {self.folder.config} --resume"
        left, planned = self._num_unfinished, self.study.num_planned
        sys.stderr.write(f"stopped with {left} of {planned} trials unfinished. To resume:\n  {command}\n")
