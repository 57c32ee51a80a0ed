"""A study that any number of processes and machines work on: which trials there are, and what became of them."""

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
from chop.searching.study.heartbeat import Presence
from chop.searching.study.storage import Place

logger = logging.getLogger(__name__)

PLANNED, METRICS, REASON, LOST, PLANNER = "planned", "metrics", "reason", "lost", "planner"
ON_THE_WAY = "on the way"
POLL = 0.2  # seconds between two looks at what others do
SETTLE = 1.0  # seconds in which all who want to plan have said so
MOST_LOST = 3
"""Workers that may die of a trial, until it is taken for the cause."""
PIECE = 30_000
"""Characters of a note that are stored as one: MySQL takes 65,535 bytes."""
State = Literal["waiting", "running", "complete", "pruned", "failed"]
_STATES: dict[TrialState, State] = {
    TrialState.WAITING: "waiting",
    TrialState.RUNNING: "running",
    TrialState.COMPLETE: "complete",
    TrialState.PRUNED: "pruned",
    TrialState.FAIL: "failed",
}


@dataclass(frozen=True)
class Record:
    """What is known of a trial."""

    number: int
    state: State
    params: Params
    metrics: Mapping[str, float]
    reason: str | None
    """Why it failed."""
    seconds: float | None
    on_the_way: Mapping[int, float] = field(default_factory=dict)
    """Accuracy at the steps at which it could have been given up."""


class Study:
    """All trials are planned first, and wait; whoever claims one runs it.

    A trial whose worker died waits again, under the same number: there are always as many as were planned.
    """

    def __init__(self, study: optuna.Study, presence: Presence, *, is_mine: bool = False) -> None:
        """`is_mine` says that this process has made it, and plans it."""
        self.presence, self.is_mine = presence, is_mine
        self._study = study
        self._storage = study._storage  # of a database it keeps what is finished
        self._id = study._study_id
        self._queue: deque[FrozenTrial] = deque()
        self._make_sampler: Callable[[int], BaseSampler | None] = lambda number: None
        self._draws = False

    @classmethod
    def create(cls, place: Place, name: str, directions: Sequence[Direction]) -> Study | None:
        """A new study; None if there is one of this name: of several that come at once, one makes it."""
        try:
            made = optuna.create_study(storage=place.storage, study_name=name, directions=list(directions))
        except optuna.exceptions.DuplicatedStudyError:
            return None
        return cls(made, place.presence, is_mine=True)

    @classmethod
    def load(cls, place: Place, name: str) -> Study | None:
        """The study of this name; None if there is none."""
        try:
            return cls(optuna.load_study(study_name=name, storage=place.storage), place.presence)
        except KeyError:
            return None

    @property
    def name(self) -> str:
        return self._study.study_name

    # What is known of all trials together

    def write(self, key: str, note: object) -> None:
        """Keep something beside the trials; it must be what JSON can hold."""
        text = json.dumps(note)
        pieces = [text[start : start + PIECE] for start in range(0, len(text), PIECE)]
        for number, piece in enumerate(pieces):
            self._study.set_user_attr(f"{key} {number}", piece)
        self._study.set_user_attr(key, len(pieces))

    def note(self, key: str) -> Any:
        """What was kept; None if nothing was."""
        notes = self._storage.get_study_user_attrs(self._id)
        if key not in notes:
            return None
        return json.loads("".join(notes[f"{key} {number}"] for number in range(notes[key])))

    # The plan

    def plan(self, points: Sequence[Params], space: Space) -> None:
        """Let trials wait at these points, beside those that an earlier plan has left, until there are so many.

        A whole point is stored with its trial, in one operation; an empty one is drawn when the trial begins.
        """
        there = self._trials()
        for point in _added(points, there):
            if point:
                self._study.add_trial(_waiting(point, space))
            else:
                self._study.enqueue_trial({})
        self.write(PLANNED, max(len(there), len(points)))

    @property
    def planned(self) -> int | None:
        """How many trials there are to be; None while they are being planned."""
        found: int | None = self.note(PLANNED)
        return found

    def wait_for_plan(self) -> bool:
        """Until another process has made the plan; False if that process is dead."""
        there, since = -1, time.monotonic()
        while self.planned is None:
            if self.presence.is_alone():
                return False
            if (now_there := len(self._trials())) != there:
                there, since = now_there, time.monotonic()
            elif time.monotonic() - since > self.presence.patience:
                return False
            time.sleep(POLL)
        return True

    def elect(self) -> bool:
        """Whether it is this process, of all who ask at about the same time, that shall plan."""
        me = uuid.uuid4().hex
        self.write(PLANNER, me)
        if not self.presence.is_alone():
            time.sleep(SETTLE)
        return bool(self.note(PLANNER) == me)

    # Trials

    def use(self, make_sampler: Callable[[int], BaseSampler | None]) -> None:
        """What draws the parts of points that the plan left open, from the number of the trial.

        One for each trial: what is drawn does not depend on who draws, nor on how often a search was stopped.
        """
        self._make_sampler = make_sampler

    def claim(self) -> Trial | None:
        """The first waiting trial, which no one else will get; None if none waits."""
        for _ in range(2):  # the second time after a fresh look
            while self._queue:
                trial = self._queue.popleft()
                if self._claim(trial):
                    return self._begin(trial)
            self._queue.extend(self._trials(TrialState.WAITING))
        return None

    def _claim(self, trial: FrozenTrial) -> bool:
        self.presence.tell(trial._trial_id)
        try:
            if self._storage.set_trial_state_values(trial._trial_id, state=TrialState.RUNNING):
                return True
        except UpdateFinishedTrialError:
            logger.debug("trial %d was done by another worker", trial.number)
        self.presence.rest()
        return False

    def _begin(self, trial: FrozenTrial) -> Trial:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            sampler = self._make_sampler(trial.number)
        self._draws = sampler is not None
        if sampler is not None:
            self._study.sampler = sampler
        return Trial(self._study, trial._trial_id)

    def complete(
        self,
        trial: Trial,
        values: Sequence[float],
        metrics: Mapping[str, float],
        on_the_way: Mapping[int, float] | None = None,
    ) -> None:
        """The trial is done; one with a value that is no number has failed."""
        if any(math.isnan(value) for value in values):
            self.fail(trial, "a metric is not a number")
            return
        steps = {ON_THE_WAY: list(on_the_way.items())} if on_the_way else {}
        self._finish(trial, {METRICS: dict(metrics), **steps}, TrialState.COMPLETE, list(values))

    def prune(self, trial: Trial, metrics: Mapping[str, float]) -> None:
        """The trial was given up half-way."""
        self._finish(trial, {METRICS: dict(metrics)}, TrialState.PRUNED)

    def fail(self, trial: Trial, reason: str) -> None:
        """The trial cannot be done."""
        self._finish(trial, {REASON: reason}, TrialState.FAIL)

    def _finish(
        self, trial: Trial, notes: Mapping[str, object], state: TrialState, values: list[float] | None = None
    ) -> None:
        try:
            for key, note in notes.items():
                trial.set_user_attr(key, note)
            if self._draws:
                self._study.tell(trial, values, state)
            else:  # no sampler wants to hear of it, and to be told takes a copy of all
                self._storage.set_trial_state_values(trial._trial_id, state, values)
        except (UpdateFinishedTrialError, ValueError):
            if self._storage.get_trial(trial._trial_id).state is TrialState.RUNNING:
                raise
            logger.warning("trial %d took so long without a sign that another worker has taken it", trial.number)
        self.presence.rest()

    def give_back(self, trial: Trial) -> None:
        """A claimed trial that was interrupted waits again."""
        self._storage.set_trial_state_values(trial._trial_id, state=TrialState.WAITING)
        self.presence.rest()

    def retry_lost(self) -> int:
        """Let trials wait again whose workers are dead; how many there were."""
        count = 0
        for trial_id in self.presence.lost(self._study):
            trial = self._storage.get_trial(trial_id)
            if trial.state is not TrialState.RUNNING:  # another worker has seen to it
                continue
            times = trial.user_attrs.get(LOST, 0) + 1
            try:
                self._storage.set_trial_user_attr(trial_id, LOST, times)
                if times < MOST_LOST:
                    self._storage.set_trial_state_values(trial_id, state=TrialState.WAITING)
                else:
                    self._storage.set_trial_user_attr(trial_id, REASON, f"{times} workers died while they ran it")
                    self._storage.set_trial_state_values(trial_id, state=TrialState.FAIL)
            except UpdateFinishedTrialError:  # its worker was slow, not dead
                continue
            count += 1
        if count:
            self._queue.clear()  # they are to come before those that are in it
        return count

    # What became of them

    def records(self) -> list[Record]:
        """All trials, in the order of the plan."""
        return [_record(trial) for trial in self._trials()]

    def count(self, *states: State) -> int:
        """How many trials are in one of these states."""
        return sum(_STATES[trial.state] in states for trial in self._trials())

    def _trials(self, *states: TrialState) -> list[FrozenTrial]:
        return self._storage.get_all_trials(self._id, deepcopy=False, states=states or None)


def _waiting(point: Params, space: Space) -> FrozenTrial:
    dimensions = space.dimensions(point)
    distributions = {name: _distribution(dimensions[name].labels) for name in point}
    return create_trial(state=TrialState.WAITING, params=dict(point), distributions=distributions)


def _added(points: Sequence[Params], there: Sequence[FrozenTrial]) -> Sequence[Params]:
    """What is to be added to some trials so that there are as many as points.

    A larger plan may begin in another way: of its points that were not tried yet, as many as are wanted from all
    over it. What is left open, a sampler draws, and only the number counts.
    """
    room = len(points) - len(there)
    if room <= 0 or not there or not all(points):
        return points[len(there) :]
    tried = {_key(_params(trial)) for trial in there}
    fresh = [point for point in points if _key(point) not in tried]
    return [fresh[place * len(fresh) // room] for place in range(room)]


def _key(point: Params) -> str:
    return json.dumps(dict(point), sort_keys=True)


@cache
def _distribution(labels: tuple[Label, ...]) -> BaseDistribution:
    return CategoricalDistribution(labels)


def _record(trial: FrozenTrial) -> Record:
    seconds = None if trial.duration is None else trial.duration.total_seconds()
    metrics = trial.user_attrs.get(METRICS, {})
    reason = trial.user_attrs.get(REASON)
    on_the_way = dict(trial.user_attrs.get(ON_THE_WAY, ()))
    return Record(trial.number, _STATES[trial.state], _params(trial), metrics, reason, seconds, on_the_way)


def _params(trial: FrozenTrial) -> Params:
    found: Params = trial.params or trial.system_attrs.get("fixed_params", {})
    return found
