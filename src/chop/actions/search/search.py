"""`ch search`: plan, work, and tell what came out."""

from __future__ import annotations

import logging
import math
import sys
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import optuna

from chop.actions.config import SearchConfig
from chop.actions.run_folder import launcher
from chop.actions.search.apply import apply_trial, use_best
from chop.actions.search.measurable import Measurable, quiet_passes
from chop.actions.search.outputs import write_results
from chop.actions.search.pool import Job, work_in_processes
from chop.actions.search.prepare import Plan
from chop.actions.search.progress import SearchProgress
from chop.actions.search.results import Results
from chop.actions.search.show import show_results
from chop.actions.search.start import FOLDER, Origin, open_study
from chop.actions.search.storage import MEMORY, explaining
from chop.actions.search.study import Study
from chop.actions.search.worker import Worker
from chop.actions.setting import Setting, prepare
from chop.actions.training.interrupt import Interrupt

logger = logging.getLogger(__name__)


def search(config: SearchConfig) -> Path:
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
        setting = prepare(config)
        plan.warn()
        with setting.fitting_threads(config.batch_size):
            with quiet_passes():
                problem = plan.problem(setting)
                with open_study(plan, setting, problem, origin) as (folder, study):
                    results = Search(plan, setting, problem, folder, study, num_workers).run()
            return use_best(plan, setting, problem, results, folder)


@dataclass(frozen=True)
class Search:
    """A study with its trials planned, and all that it takes to work on it."""

    plan: Plan
    setting: Setting
    problem: Measurable
    folder: Path
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
        show_results(results, self.plan.config.max_drop, self.folder / FOLDER)
        if self.study.count("waiting", "running"):
            self._tell_how_to_go_on()
        if interrupt.asked:
            raise KeyboardInterrupt
        return results

    def save(self) -> Results:
        """All files of the results, as far as they are known."""
        return write_results(self.folder, self.plan, self.setting, self.problem, self.study)

    def _work(self, interrupt: Interrupt, progress: SearchProgress) -> None:
        """Here, or in processes of their own; what those leave behind is done here."""
        strategy = self.plan.strategy
        seconds = math.inf if strategy.timeout is None else strategy.timeout
        end = time.monotonic() + seconds

        def stop() -> bool:
            return interrupt.asked

        if self.num_workers > 1 and self.study.count("waiting"):
            job = Job(self.plan.config, self.folder / FOLDER, self.study.name, self.num_workers, seconds)
            work_in_processes(job, stop, progress.tick)
        seed = self.plan.config.seed
        self.study.use(partial(strategy.make_sampler, seed, num_workers=self.num_workers))
        halving = strategy.halving
        Worker(self.study, self.problem, self.plan.objectives, halving, end, stop, tick=progress.tick).run()

    def _tell_how_to_go_on(self) -> None:
        if self.plan.config.storage == MEMORY:
            return
        left = self.study.count("waiting", "running")
        command = f"{launcher()} search --config {self.folder / 'run.toml'} --resume"
        sys.stderr.write(f"stopped with {left} of {self.study.planned} trials to do. To go on:\n  {command}\n")
