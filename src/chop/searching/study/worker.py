"""Workers, which claim trials of a study and run them."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from optuna.exceptions import UpdateFinishedTrialError
from optuna.trial import FrozenTrial

from chop.display.numbers import counted
from chop.searching.evaluation.objectives import Objectives
from chop.searching.evaluation.problem import Problem
from chop.searching.study.pruning import CompletedTrial, TrialPruner
from chop.searching.study.study import POLL_SECONDS, Study

logger = logging.getLogger(__name__)

LOST_CHECK_SECONDS = 2.0
"""Time between two checks for trials whose worker has crashed."""


@dataclass
class Worker:
    """A loop that claims trials and runs them, until all are finished or it is stopped."""

    study: Study
    problem: Problem
    objectives: Objectives
    prunes: bool = False
    """Whether trials that cannot become Pareto-optimal are stopped early."""
    end: float = math.inf
    """The time of the monotonic clock after which no new trial is started."""
    stop: Callable[[], bool] = lambda: False
    """Called before each trial, and while waiting; True stops the worker."""
    waits_for_others: bool = True
    """Whether it waits for trials that others run, and runs those of crashed workers again."""
    tick: Callable[[], None] = lambda: None
    """Called after each trial, and while waiting."""
    _completed: list[CompletedTrial] = field(default_factory=list)
    _last_check: float = -math.inf

    def run(self) -> int:
        """Run trials and return how many were run."""
        count = 0
        if self.prunes:
            records = (record for record in self.study.records() if record.state == "complete")
            self._completed = [CompletedTrial(record.metrics, record.rung_accuracies) for record in records]
        while time.monotonic() < self.end and not self.stop():
            if self.waits_for_others and time.monotonic() - self._last_check > LOST_CHECK_SECONDS:
                self._retry_lost_trials()
            trial = self.study.claim()
            if trial is not None:
                with self.study.running(trial):
                    self._run(trial)
                count += 1
            elif not self.waits_for_others or not self.study.count("waiting", "running"):
                break
            else:
                time.sleep(POLL_SECONDS)
            self.tick()
        return count

    def _retry_lost_trials(self) -> None:
        self._last_check = time.monotonic()
        num_lost = self.study.retry_lost_trials()
        if num_lost:
            logger.info("workers crashed: %s will run again", counted(num_lost, "trial"))

    def _run(self, trial: FrozenTrial) -> None:
        pruner = TrialPruner(self._completed, self.objectives, self.problem.rungs) if self.prunes else None
        try:
            metrics = self.problem.measure(self.study.configuration(trial, self.problem.space), pruner)
        except ValueError as error:  # a combination that a format does not allow
            self.study.fail(trial, str(error))
            return
        except UpdateFinishedTrialError:
            logger.info("trial %d was finished by another worker in the meantime", trial.number)
            return
        except KeyboardInterrupt:
            self.study.give_back(trial)
            raise
        except Exception as error:  # the search ends; if it is resumed, it continues after this trial
            self.study.fail(trial, f"{type(error).__name__}: {error}")
            raise
        if pruner is None:
            self.study.complete(trial, self.objectives.values(metrics), metrics)
        elif pruner.is_pruned:
            self.study.prune(trial, metrics)
        else:
            self._completed.append(CompletedTrial(metrics, pruner.accuracies))
            self.study.complete(trial, self.objectives.values(metrics), metrics, pruner.accuracies)
