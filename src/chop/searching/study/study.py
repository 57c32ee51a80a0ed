"""A study that any number of processes and machines work on: its trials and their results."""

from __future__ import annotations

import json
import logging
import math
import time
import uuid
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, field
from typing import Any, Literal

import optuna
from optuna.exceptions import UpdateFinishedTrialError
from optuna.trial import FrozenTrial, TrialState, create_trial

from chop.config.search import Direction
from chop.display.launcher import option_name
from chop.searching.space import Configuration, Params, Space
from chop.searching.space.dimension import equality_key
from chop.searching.study.drawing import MakeSampler, ParamsDrawer, distribution_of
from chop.searching.study.storage import StudyStorage

logger = logging.getLogger(__name__)

# Notes of a study, beside its trials
BASELINES, ORIGINAL = "baselines", "plain"
"""The uniform baselines with their metrics, and the metrics of the original model."""
NUM_PLANNED, PLANNER = "planned", "planner"
DRAWN = "drawn"
"""The system attribute of a trial that holds all its params as JSON, stored before they are stored one by one."""
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

    def __init__(self, study: optuna.Study, storage: StudyStorage, *, is_creator: bool = False) -> None:
        """Wrap a study of Optuna. The process that created it (`is_creator`) plans its trials."""
        self.is_creator = is_creator
        self._study, self._storage, self._heartbeats = study, storage.backend, storage.heartbeats
        self._id = self._storage.get_study_id_from_name(study.study_name)
        self._trial_ids: dict[int, int] = {}
        self._queue: deque[FrozenTrial] = deque()
        self._drawer: ParamsDrawer | None = None
        self._finished_keys: set[str] = set()  # of the params of the first `_num_finished` trials
        self._num_finished = 0

    @classmethod
    def create(cls, storage: StudyStorage, name: str, directions: Sequence[Direction]) -> Study | None:
        """Create a study; return None if the name is taken, also by a process that does it at the same time."""
        try:
            made = optuna.create_study(storage=storage.backend, study_name=name, directions=list(directions))
        except optuna.exceptions.DuplicatedStudyError:
            return None
        return cls(made, storage, is_creator=True)

    @classmethod
    def load(cls, storage: StudyStorage, name: str) -> Study | None:
        """Return the study of this name; None if there is none."""
        try:
            return cls(optuna.load_study(study_name=name, storage=storage.backend), storage)
        except KeyError:
            return None

    @property
    def name(self) -> str:
        return self._study.study_name

    # Notes on the study

    def write_note(self, key: str, note: object) -> None:
        """Store a JSON value beside the trials."""
        for name, chunk in _chunks(key, json.dumps(note)).items():
            self._study.set_user_attr(name, chunk)

    def read_note(self, key: str) -> Any:
        """Return the note; None if there is none."""
        return _joined(key, self._storage.get_study_user_attrs(self._id))

    # The plan

    def plan(self, params: Sequence[Params], space: Space) -> None:
        """Add waiting trials, beside those that an earlier plan has left, until there are as many as params.

        The params of a trial are stored together with it; if they are empty, they are drawn when the trial starts.
        """
        present = self._trials()
        for missing in _missing(params, present):
            if missing:
                distributions = {name: distribution_of(each) for name, each in space.dimensions(missing).items()}
                waiting = create_trial(state=TrialState.WAITING, params=dict(missing), distributions=distributions)
                self._study.add_trial(waiting)
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
            if self._heartbeats is None:
                return False
            if (num_present := len(self._trials())) != num_seen:
                num_seen, since = num_present, time.monotonic()
            elif time.monotonic() - since > self._heartbeats.grace_seconds:
                return False
            time.sleep(POLL_SECONDS)
        return True

    def elect_planner(self) -> bool:
        """Return whether this process, of all that call this at about the same time, shall plan the trials."""
        if self._heartbeats is None:
            return True
        name = uuid.uuid4().hex
        self.write_note(PLANNER, name)
        time.sleep(ELECTION_SECONDS)
        return bool(self.read_note(PLANNER) == name)

    # Trials

    def use_samplers(self, make_sampler: MakeSampler) -> None:
        """Set what draws the params that the plan left open.

        There is one sampler per trial, so that what is drawn does not depend on which process draws it, nor on how
        often a search was stopped.
        """
        self._drawer = ParamsDrawer(self._study.directions, make_sampler)

    def claim(self) -> FrozenTrial | None:
        """Claim the first waiting trial for this process; return None if none is waiting."""
        for _ in range(2):  # the second time with a new queue
            while self._queue:
                trial_id = self._trial_id(self._queue.popleft())
                with suppress(UpdateFinishedTrialError):  # by another worker
                    if self._storage.set_trial_state_values(trial_id, state=TrialState.RUNNING):
                        return self._storage.get_trial(trial_id)
            self._queue.extend(self._trials(TrialState.WAITING))
        return None

    def running(self, trial: FrozenTrial) -> AbstractContextManager[None]:
        """Show other machines that this process is alive, while it runs a trial inside the context."""
        return nullcontext() if self._heartbeats is None else self._heartbeats.of_trial(self._trial_id(trial))

    def configuration(self, trial: FrozenTrial, space: Space) -> Configuration:
        """Return the configuration of a claimed trial; the params that the plan left open are drawn and stored."""
        params = _params(trial)
        try:
            configuration = space.configuration(params)
        except ValueError:  # not drawn yet; without choices, {} is complete
            params = self._draw(trial, space)
            configuration = space.configuration(params)
        if params != trial.params:  # those of a planned trial were stored with it
            for name, dimension in space.dimensions(params).items():
                distribution = distribution_of(dimension)
                value = distribution.to_internal_repr(params[name])
                self._storage.set_trial_param(self._trial_id(trial), name, value, distribution)
        return configuration

    def _draw(self, trial: FrozenTrial, space: Space) -> Params:
        """Draw params and store them as one text: after a crash, a trial must not keep half of its params.

        Another worker may draw the same ones at the same time. Each looks again after storing its own, so that at
        least one of them sees the other's, and draws again.
        """
        assert self._drawer is not None, "workers set samplers"
        while True:
            finished = [each for each in self._trials() if each.state.is_finished()]
            others = self._keys_of_others(trial.number)
            params, attributes = self._drawer.draw(finished, trial.number, space, others)
            for key, value in {**attributes, **_chunks(DRAWN, json.dumps(params))}.items():
                self._storage.set_trial_system_attr(self._trial_id(trial), key, value)
            others = self._keys_of_others(trial.number)
            if equality_key(params) not in others or len(others) >= space.num_configurations:
                return params

    def _keys_of_others(self, number: int) -> set[str]:
        """Return the keys of the params of all trials but one."""
        trials = self._trials()
        while self._num_finished < len(trials) and trials[self._num_finished].state.is_finished():
            self._finished_keys.add(equality_key(_params(trials[self._num_finished])))
            self._num_finished += 1
        unfinished = (trial for trial in trials[self._num_finished :] if trial.number != number)
        return self._finished_keys.union(equality_key(params) for trial in unfinished if (params := _params(trial)))

    def complete(
        self,
        trial: FrozenTrial,
        values: Sequence[float],
        metrics: Mapping[str, float],
        rung_accuracies: Mapping[int, float] | None = None,
    ) -> None:
        """Store the results of a trial; it has failed if a value is not a number."""
        if any(math.isnan(value) for value in values):
            self.fail(trial, "a metric is not a number")
            return
        rungs = {RUNG_ACCURACIES: list(rung_accuracies.items())} if rung_accuracies else {}
        self._finish(
            trial, {METRICS: dict(metrics), **rungs}, TrialState.COMPLETE, [float(value) for value in values]
        )

    def prune(self, trial: FrozenTrial, metrics: Mapping[str, float]) -> None:
        """Store that a trial was stopped early."""
        self._finish(trial, {METRICS: dict(metrics)}, TrialState.PRUNED)

    def fail(self, trial: FrozenTrial, reason: str) -> None:
        """Store that a trial failed."""
        self._finish(trial, {REASON: reason}, TrialState.FAIL)

    def _finish(
        self,
        trial: FrozenTrial,
        attributes: Mapping[str, object],
        state: TrialState,
        values: list[float] | None = None,
    ) -> None:
        try:
            for key, value in attributes.items():
                self._storage.set_trial_user_attr(self._trial_id(trial), key, value)
            self._storage.set_trial_state_values(self._trial_id(trial), state, values)
        except UpdateFinishedTrialError:
            logger.warning("trial %d had no heartbeat for so long that another worker took it", trial.number)

    def give_back(self, trial: FrozenTrial) -> None:
        """Let a claimed trial that was interrupted wait again."""
        self._storage.set_trial_state_values(self._trial_id(trial), state=TrialState.WAITING)

    def retry_lost_trials(self) -> int:
        """Let trials wait again whose workers have crashed; return how many there were.

        Without a database, these are all running trials: call it only while no worker of this process runs.
        """
        count = 0
        for trial in self._trials(TrialState.RUNNING):
            if self._heartbeats is not None and not self._heartbeats.have_stopped(trial):
                continue
            trial_id, num_lost = self._trial_id(trial), trial.user_attrs.get(NUM_LOST, 0) + 1
            with suppress(UpdateFinishedTrialError):  # its worker was slow and has finished it
                self._storage.set_trial_user_attr(trial_id, NUM_LOST, num_lost)
                if num_lost == MAX_WORKERS_LOST:
                    reason = f"{num_lost} workers crashed while they ran it"
                    self._storage.set_trial_user_attr(trial_id, REASON, reason)
                state = TrialState.WAITING if num_lost < MAX_WORKERS_LOST else TrialState.FAIL
                self._storage.set_trial_state_values(trial_id, state=state)
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
        return self._study.get_trials(deepcopy=False, states=states or None)

    def _trial_id(self, trial: FrozenTrial) -> int:
        number = trial.number
        if number not in self._trial_ids:
            self._trial_ids[number] = self._storage.get_trial_id_from_study_id_trial_number(self._id, number)
        return self._trial_ids[number]


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


def _chunks(key: str, text: str) -> dict[str, str | int]:
    """Return a text in parts that every database can hold; their number is last, and says that all are there."""
    starts = range(0, len(text), MAX_NOTE_CHARACTERS)
    parts = {f"{key} {number}": text[start : start + MAX_NOTE_CHARACTERS] for number, start in enumerate(starts)}
    return {**parts, key: len(parts)}


def _joined(key: str, stored: Mapping[str, Any]) -> Any:
    """Return the JSON value that was stored in parts; None if it is missing, or a crash has left it incomplete."""
    if key not in stored:
        return None
    try:
        return json.loads("".join(stored[f"{key} {number}"] for number in range(stored[key])))
    except (KeyError, TypeError, ValueError) as error:
        raise _corrupt(key) from error


def _corrupt(key: str) -> ValueError:
    return ValueError(
        f"the study is corrupt: its entry '{key}' cannot be read; "
        f"start a new search without {option_name('resume')}"
    )


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
    """Return the params as they were planned or drawn; after a crash, those stored one by one may be incomplete."""
    attributes = trial.system_attrs
    drawn = _joined(DRAWN, attributes)
    if not isinstance(drawn, dict | None):
        raise _corrupt(DRAWN)
    found: Params = drawn or attributes.get("fixed_params") or trial.params
    return found
