"""The trials that a sampler looks at: a limited number, so that a draw does not take longer with each trial."""

from __future__ import annotations

import copy
from collections.abc import Container

import optuna
from optuna.study import StudyDirection
from optuna.trial import FrozenTrial, TrialState

from chop.searching.evaluation.objectives import Gains, weakly_dominates

MAX_TRIALS = 200
"""Finished trials that a sampler looks at: Pareto-optimal ones, up to half of them, and the newest."""


class LimitedHistory(optuna.Study):
    """A study of which samplers see only the Pareto-optimal and the newest of many trials.

    TPE compares the best trials with the others, each time it draws a choice; the time grows with their number.
    """

    def __init__(self, study: optuna.Study) -> None:
        self.__dict__.update(study.__dict__)  # the same study, storage and sampler
        self._front: list[tuple[Gains, FrozenTrial]] = []
        self._finished: dict[int, FrozenTrial] = {}
        self._num_read = 0  # trials at the start that are all finished
        self._shown: list[FrozenTrial] = []

    def refresh(self) -> None:
        """Read the trials from the storage."""
        unread = self._storage.get_all_trials(self._study_id, deepcopy=False)[self._num_read :]
        started = [trial for trial in unread if trial.state is not TrialState.WAITING]
        running = [trial for trial in started if trial.state is TrialState.RUNNING]
        for trial in started:
            if trial.state is not TrialState.RUNNING and trial.number not in self._finished:
                self._finished[trial.number] = trial
                if trial.state is TrialState.COMPLETE:
                    self._add_to_front(trial)
        while self._num_read in self._finished:
            self._num_read += 1
        kept = {trial.number: trial for _, trial in self._front[-MAX_TRIALS // 2 :]}
        for number in reversed(self._finished):
            if len(kept) >= MAX_TRIALS:
                break
            kept[number] = self._finished[number]
        self._shown = sorted([*kept.values(), *running], key=lambda trial: trial.number)

    def _add_to_front(self, trial: FrozenTrial) -> None:
        signs = [1 if each is StudyDirection.MAXIMIZE else -1 for each in self.directions]
        gains = tuple(sign * value for sign, value in zip(signs, trial.values, strict=True))
        if not any(weakly_dominates(other, gains) for other, _ in self._front):
            self._front = [pair for pair in self._front if not weakly_dominates(gains, pair[0])]
            self._front.append((gains, trial))

    def _get_trials(
        self, deepcopy: bool = True, states: Container[TrialState] | None = None, use_cache: bool = False
    ) -> list[FrozenTrial]:
        found = [trial for trial in self._shown if states is None or trial.state in states]
        return copy.deepcopy(found) if deepcopy else found
