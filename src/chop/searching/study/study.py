"""A study that any number of processes and machines work on: its trials and their results."""

from __future__ import annotations

import json
import logging
import math
import time
import uuid
import warnings
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Literal

import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution
from optuna.exceptions import UpdateFinishedTrialError
from optuna.samplers import BaseSampler
from optuna.trial import FrozenTrial, Trial, TrialState, create_trial

from chop.config.search import Direction
from chop.searching.space import Label, Params, Space
from chop.searching.space.dimension import equality_key
from chop.searching.study.heartbeat import Heartbeat
from chop.searching.study.storage import StudyStorage

logger = logging.getLogger(__name__)

# Notes of a study, beside its trials
BASELINES, ORIGINAL = "baselines", "plain"
"""The uniform baselines with their metrics, and the metrics of the original model."""
NUM_PLANNED, PLANNER = "planned", "planner"
# User attributes of a trial
METRICS, REASON, NUM_LOST, RUNG_ACCURACIES = "metrics", "reason", "lost", "on the way"

POLL_SECONDS = 0.2
"""Interval at which a process checks what other processes have done."""
ELECTION_SECONDS = 1.0
"""Time in which all processes that want to plan a study enter their names."""
MAX_WORKERS_LOST = 3
"""A trial during which this many workers crashed has failed: it is probably the cause."""
MAX_NOTE_CHARACTERS = 30_000
"""Length of a note that is stored as one text: MySQL allows 65,535 bytes."""
State = Literal["waiting", "running", "complete", "pruned", "failed"]
_STATES: dict[TrialState, State] = {
    TrialState.WAITING: "waiting",
    TrialState.RUNNING: "running",
    TrialState.COMPLETE: "complete",
    TrialState.PRUNED: "pruned",
    TrialState.FAIL: "failed",
}


@dataclass(frozen=True)
class TrialRecord:
    """A trial as it is stored."""

    number: int
    state: State
    params: Params
    metrics: Mapping[str, float]
    reason: str | None
    """Why it failed."""
    seconds: float | None
    rung_accuracies: Mapping[int, float] = field(default_factory=dict)
    """Accuracy at the rungs, where it could have been pruned."""


class Study:
    """The trials of a search: planned before the first one runs, then claimed and run by workers.

    A trial whose worker crashed waits again, under the same number: the number of trials never changes.
    """

    def __init__(self, study: optuna.Study, heartbeat: Heartbeat, *, is_creator: bool = False) -> None:
        """Wrap a study of Optuna. The process that created it (`is_creator`) plans its trials."""
        self.heartbeat, self.is_creator = heartbeat, is_creator
        self._study = study
        self._storage = study._storage  # for a database, it caches finished trials
        self._id = study._study_id
        self._queue: deque[FrozenTrial] = deque()
        self._make_sampler: Callable[[int], BaseSampler | None] = lambda number: None
        self._has_sampler = False

    @classmethod
    def create(cls, storage: StudyStorage, name: str, directions: Sequence[Direction]) -> Study | None:
        """Create a study; return None if the name is taken, also by a process that does it at the same time."""
        try:
            made = optuna.create_study(storage=storage.backend, study_name=name, directions=list(directions))
        except optuna.exceptions.DuplicatedStudyError:
            return None
        return cls(made, storage.heartbeat, is_creator=True)

    @classmethod
    def load(cls, storage: StudyStorage, name: str) -> Study | None:
        """Return the study of this name; None if there is none."""
        try:
            return cls(optuna.load_study(study_name=name, storage=storage.backend), storage.heartbeat)
        except KeyError:
            return None

    @property
    def name(self) -> str:
        return self._study.study_name

    # Notes on the study

    def write_note(self, key: str, note: object) -> None:
        """Store a JSON value beside the trials."""
        text = json.dumps(note)
        chunks = [text[start : start + MAX_NOTE_CHARACTERS] for start in range(0, len(text), MAX_NOTE_CHARACTERS)]
        for number, chunk in enumerate(chunks):
            self._study.set_user_attr(f"{key} {number}", chunk)
        self._study.set_user_attr(key, len(chunks))

    def read_note(self, key: str) -> Any:
        """Return the note; None if there is none."""
        notes = self._storage.get_study_user_attrs(self._id)
        if key not in notes:
            return None
        return json.loads("".join(notes[f"{key} {number}"] for number in range(notes[key])))

    # The plan

    def plan(self, params: Sequence[Params], space: Space) -> None:
        """Add waiting trials, beside those that an earlier plan has left, until there are as many as params.

        The params of a trial are stored together with it; if they are empty, they are drawn when the trial starts.
        """
        present = self._trials()
        for each in _missing(params, present):
            if each:
                self._study.add_trial(_waiting_trial(each, space))
            else:
                self._study.enqueue_trial({})
        self.write_note(NUM_PLANNED, max(len(present), len(params)))

    @property
    def num_planned(self) -> int | None:
        """The number of trials; None while they are being planned."""
        found: int | None = self.read_note(NUM_PLANNED)
        return found

    def wait_for_plan(self) -> bool:
        """Wait until another process has planned the trials; return False if that process has crashed."""
        num_seen, since = -1, time.monotonic()
        while self.num_planned is None:
            if self.heartbeat.is_only_worker():
                return False
            if (num_present := len(self._trials())) != num_seen:
                num_seen, since = num_present, time.monotonic()
            elif time.monotonic() - since > self.heartbeat.grace_seconds:
                return False
            time.sleep(POLL_SECONDS)
        return True

    def elect_planner(self) -> bool:
        """Return whether this process, of all that call this at about the same time, shall plan the trials."""
        name = uuid.uuid4().hex
        self.write_note(PLANNER, name)
        if not self.heartbeat.is_only_worker():
            time.sleep(ELECTION_SECONDS)
        return bool(self.read_note(PLANNER) == name)

    # Trials

    def use_samplers(self, make_sampler: Callable[[int], BaseSampler | None]) -> None:
        """Set what draws the params that the plan left open, given the number of the trial.

        There is one sampler per trial, so that what is drawn does not depend on which process draws it, nor on how
        often a search was stopped.
        """
        self._make_sampler = make_sampler

    def claim(self) -> Trial | None:
        """Claim the first waiting trial for this process; return None if none is waiting."""
        for _ in range(2):  # the second time with a new queue
            while self._queue:
                trial = self._queue.popleft()
                if self._claim(trial):
                    return self._start(trial)
            self._queue.extend(self._trials(TrialState.WAITING))
        return None

    def _claim(self, trial: FrozenTrial) -> bool:
        self.heartbeat.start_trial(trial._trial_id)
        try:
            if self._storage.set_trial_state_values(trial._trial_id, state=TrialState.RUNNING):
                return True
        except UpdateFinishedTrialError:
            logger.debug("trial %d was finished by another worker", trial.number)
        self.heartbeat.end_trial()
        return False

    def _start(self, trial: FrozenTrial) -> Trial:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            sampler = self._make_sampler(trial.number)
        self._has_sampler = sampler is not None
        if sampler is not None:
            self._study.sampler = sampler
        return Trial(self._study, trial._trial_id)

    def complete(
        self,
        trial: Trial,
        values: Sequence[float],
        metrics: Mapping[str, float],
        rung_accuracies: Mapping[int, float] | None = None,
    ) -> None:
        """Store the results of a trial; it has failed if a value is not a number."""
        if any(math.isnan(value) for value in values):
            self.fail(trial, "a metric is not a number")
            return
        rungs = {RUNG_ACCURACIES: list(rung_accuracies.items())} if rung_accuracies else {}
        self._finish(trial, {METRICS: dict(metrics), **rungs}, TrialState.COMPLETE, list(values))

    def prune(self, trial: Trial, metrics: Mapping[str, float]) -> None:
        """Store that a trial was stopped early."""
        self._finish(trial, {METRICS: dict(metrics)}, TrialState.PRUNED)

    def fail(self, trial: Trial, reason: str) -> None:
        """Store that a trial failed."""
        self._finish(trial, {REASON: reason}, TrialState.FAIL)

    def _finish(
        self, trial: Trial, attributes: Mapping[str, object], state: TrialState, values: list[float] | None = None
    ) -> None:
        try:
            for key, value in attributes.items():
                trial.set_user_attr(key, value)
            if self._has_sampler:
                self._study.tell(trial, values, state)
            else:  # `tell` informs the sampler, for which it copies all trials
                self._storage.set_trial_state_values(trial._trial_id, state, values)
        except (UpdateFinishedTrialError, ValueError):
            if self._storage.get_trial(trial._trial_id).state is TrialState.RUNNING:
                raise
            logger.warning("trial %d had no heartbeat for so long that another worker took it", trial.number)
        self.heartbeat.end_trial()

    def give_back(self, trial: Trial) -> None:
        """Let a claimed trial that was interrupted wait again."""
        self._storage.set_trial_state_values(trial._trial_id, state=TrialState.WAITING)
        self.heartbeat.end_trial()

    def retry_lost_trials(self) -> int:
        """Let trials wait again whose workers have crashed; return how many there were."""
        count = 0
        for trial_id in self.heartbeat.lost_trials(self._study):
            trial = self._storage.get_trial(trial_id)
            if trial.state is not TrialState.RUNNING:  # another worker has already handled it
                continue
            num_lost = trial.user_attrs.get(NUM_LOST, 0) + 1
            try:
                self._storage.set_trial_user_attr(trial_id, NUM_LOST, num_lost)
                if num_lost < MAX_WORKERS_LOST:
                    self._storage.set_trial_state_values(trial_id, state=TrialState.WAITING)
                else:
                    reason = f"{num_lost} workers crashed while they ran it"
                    self._storage.set_trial_user_attr(trial_id, REASON, reason)
                    self._storage.set_trial_state_values(trial_id, state=TrialState.FAIL)
            except UpdateFinishedTrialError:  # its worker was slow and has finished it
                continue
            count += 1
        if count:
            self._queue.clear()  # these trials come before those in the queue
        return count

    # Results

    def records(self) -> list[TrialRecord]:
        """Return all trials, in the order of the plan."""
        return [_record(trial) for trial in self._trials()]

    def count(self, *states: State) -> int:
        """Return how many trials are in one of these states."""
        return sum(_STATES[trial.state] in states for trial in self._trials())

    def _trials(self, *states: TrialState) -> list[FrozenTrial]:
        return self._storage.get_all_trials(self._id, deepcopy=False, states=states or None)


def _waiting_trial(params: Params, space: Space) -> FrozenTrial:
    dimensions = space.dimensions(params)
    distributions = {name: _distribution(dimensions[name].labels) for name in params}
    return create_trial(state=TrialState.WAITING, params=dict(params), distributions=distributions)


def _missing(params: Sequence[Params], present: Sequence[FrozenTrial]) -> Sequence[Params]:
    """Return the params to add to the trials that are present, so that there are as many as params.

    A larger plan may begin with other trials: a strategy that is asked for 60 trials instead of 20 does not
    repeat the first 20. Then evenly spaced params that were not tried yet are added. If params are left to a
    sampler, only their number counts.
    """
    num_missing = len(params) - len(present)
    if num_missing <= 0 or not present or not all(params):
        return params[len(present) :]
    tried = {equality_key(_params(trial)) for trial in present}
    untried = [each for each in params if equality_key(each) not in tried]
    return [untried[index * len(untried) // num_missing] for index in range(num_missing)]


@cache
def _distribution(labels: tuple[Label, ...]) -> BaseDistribution:
    return CategoricalDistribution(labels)


def _record(trial: FrozenTrial) -> TrialRecord:
    return TrialRecord(
        number=trial.number,
        state=_STATES[trial.state],
        params=_params(trial),
        metrics=trial.user_attrs.get(METRICS, {}),
        reason=trial.user_attrs.get(REASON),
        seconds=None if trial.duration is None else trial.duration.total_seconds(),
        rung_accuracies=dict(trial.user_attrs.get(RUNG_ACCURACIES, ())),
    )


def _params(trial: FrozenTrial) -> Params:
    found: Params = trial.params or trial.system_attrs.get("fixed_params", {})
    return found
