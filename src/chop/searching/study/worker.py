"""One process that works on a study."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from optuna.exceptions import UpdateFinishedTrialError
from optuna.trial import Trial

from chop.searching.evaluation.objectives import Objectives
from chop.searching.evaluation.problem import Measurable
from chop.searching.space import Dimension, Params
from chop.searching.study.pruning import Rival, TrialJudge
from chop.searching.study.study import POLL, Study

logger = logging.getLogger(__name__)

LOOK = 2.0  # seconds between two looks for trials whose workers are dead


@dataclass
class Worker:
    """Claims trials and runs them, until all are done or it is told to stop."""

    study: Study
    problem: Measurable
    objectives: Objectives
    halving: bool = False
    end: float = math.inf
    """When no new trial is begun, on the monotonic clock."""
    stop: Callable[[], bool] = lambda: False
    """Asked before each trial, and while it waits."""
    stays: bool = True
    """Whether it waits for trials that others run, in case that those die."""
    tick: Callable[[], None] = lambda: None
    """Called after each trial, and while it waits."""
    _rivals: list[Rival] = field(default_factory=list)
    _looked: float = -math.inf

    def run(self) -> int:
        """The number of trials that were run here."""
        count = 0
        if self.halving:
            done = (record for record in self.study.records() if record.state == "complete")
            self._rivals = [Rival(record.metrics, record.on_the_way) for record in done]
        while not self._is_over():
            self._retry_lost()
            trial = self.study.claim()
            if trial is not None:
                self._run(trial)
                count += 1
            elif not self.stays or not self.study.count("waiting", "running"):
                break
            else:
                time.sleep(POLL)
            self.tick()
        return count

    def _is_over(self) -> bool:
        return time.monotonic() >= self.end or self.stop()

    def _retry_lost(self) -> None:
        if (now := time.monotonic()) - self._looked > LOOK:
            self._looked = now
            if lost := self.study.retry_lost():
                logger.info("%d trials wait again, as their workers are gone", lost)

    def _run(self, trial: Trial) -> None:
        judge = TrialJudge(self._rivals, self.objectives, self.problem.rungs) if self.halving else None
        try:
            configs = self.problem.space.draw(partial(_suggest, trial, trial.params))
            metrics = self.problem.measure(configs, judge)
        except ValueError as error:  # a combination that a format does not allow
            self.study.fail(trial, str(error))
            return
        except UpdateFinishedTrialError:
            logger.info("trial %d was done by another worker in the meantime", trial.number)
            return
        except KeyboardInterrupt:
            self.study.give_back(trial)
            raise
        except Exception as error:  # the search ends; when it goes on, it goes on behind this trial
            self.study.fail(trial, f"{type(error).__name__}: {error}")
            raise
        if judge is not None and judge.gave_up:
            self.study.prune(trial, metrics)
            return
        if judge is not None:
            self._rivals.append(Rival(metrics, judge.accuracies))
        on_the_way = None if judge is None else judge.accuracies
        self.study.complete(trial, self.objectives.values(metrics), metrics, on_the_way)


def _suggest(trial: Trial, planned: Params, dimension: Dimension) -> Any:
    if dimension.name in planned:
        return dimension.value(planned[dimension.name])
    return dimension.value(trial.suggest_categorical(dimension.name, dimension.labels))
