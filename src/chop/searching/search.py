"""`ch search`: plan, work, and tell what came out."""

from __future__ import annotations

import logging
import math
import sys
import time
from dataclasses import dataclass
from functools import partial

import optuna

from chop.config import SearchConfig
from chop.display.terminal import launcher
from chop.runs import Experiment, RunFolder
from chop.searching.apply import apply_trial, use_best
from chop.searching.evaluation.problem import Measurable, quiet_passes
from chop.searching.plan import Plan
from chop.searching.results.files import write_results
from chop.searching.results.progress import SearchProgress
from chop.searching.results.results import Results
from chop.searching.results.terminal import show_results
from chop.searching.study.processes import Job, work_in_processes
from chop.searching.study.session import Origin, open_study
from chop.searching.study.storage import MEMORY, explaining
from chop.searching.study.study import Study
from chop.searching.study.worker import Worker
from chop.training.interrupt import Interrupt
from chop.training.threads import fitting_threads

logger = logging.getLogger(__name__)


def search(config: SearchConfig) -> RunFolder:
    """Search as `config` says; the folder of the run is returned."""
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    if config.apply is not None:
        return apply_trial(config)
    plan = Plan.read(config)
    num_workers = config.workers or plan.strategy.n_jobs
    if config.storage == MEMORY and num_workers > 1:
        raise ValueError(f"--storage memory is for one worker, not for {num_workers}: processes share no memory")
    with explaining(config.storage):
        origin = Origin.find(config)
        experiment = Experiment.load(config)
        plan.warn()
        with fitting_threads(experiment, config.batch_size):
            with quiet_passes():
                problem = plan.problem(experiment)
                with open_study(plan, experiment, problem, origin) as (folder, study):
                    results = Search(plan, experiment, problem, folder, study, num_workers).run()
            return use_best(plan, experiment, problem, results, folder)


@dataclass(frozen=True)
class Search:
    """A study with its trials planned, and all that it takes to work on it."""

    plan: Plan
    experiment: Experiment
    problem: Measurable
    folder: RunFolder
    study: Study
    num_workers: int

    def run(self) -> Results:
        """Work until all is done, the time is over or the user interrupts; what was found until then is kept."""
        every = self.plan.strategy.save_every_n_trials
        progress = SearchProgress(self.study, self.plan.objectives, every, self.save)
        if not self.study.count("waiting", "running"):
            logger.info("all %d trials are done already; a larger --n-trials adds more", self.study.planned)
        try:
            with Interrupt() as interrupt:
                self._work(interrupt, progress)
        except KeyboardInterrupt:
            self._tell_how_to_go_on()
            raise
        finally:
            progress.close()
        results = self.save()
        show_results(results, self.plan.config.max_drop, self.folder)
        if self.study.count("waiting", "running"):
            self._tell_how_to_go_on()
        if interrupt.asked:
            raise KeyboardInterrupt
        return results

    def save(self) -> Results:
        """All files of the results, as far as they are known."""
        return write_results(self.folder, self.plan, self.experiment, self.problem, self.study)

    def _work(self, interrupt: Interrupt, progress: SearchProgress) -> None:
        """Here, or in processes of their own; what those leave behind is done here."""
        strategy = self.plan.strategy
        seconds = math.inf if strategy.timeout is None else strategy.timeout
        end = time.monotonic() + seconds

        def stop() -> bool:
            return interrupt.asked

        if self.num_workers > 1 and self.study.count("waiting"):
            job = Job(self.plan.config, self.folder, self.study.name, self.num_workers, seconds)
            work_in_processes(job, stop, progress.tick)
        seed = self.plan.config.seed
        self.study.use(partial(strategy.make_sampler, seed, num_workers=self.num_workers))
        halving = strategy.halving
        Worker(self.study, self.problem, self.plan.objectives, halving, end, stop, tick=progress.tick).run()

    def _tell_how_to_go_on(self) -> None:
        if self.plan.config.storage == MEMORY:
            return
        left = self.study.count("waiting", "running")
        command = f"{launcher()} search --config {self.folder.config} --resume"
        sys.stderr.write(f"stopped with {left} of {self.study.planned} trials to do. To go on:\n  {command}\n")
