"""The journal file of a study: a line per change, in the format of Optuna."""

from __future__ import annotations

import copy
import fcntl
import json
import os
import time
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime
from functools import cache
from json.scanner import make_scanner
from pathlib import Path
from typing import Any, Self

from optuna.distributions import BaseDistribution, json_to_distribution
from optuna.storages import JournalStorage
from optuna.storages.journal import BaseJournalBackend, JournalFileBackend, JournalFileOpenLock
from optuna.storages.journal._storage import JournalOperation, JournalStorageReplayResult
from optuna.trial import FrozenTrial, TrialState

from chop.files import naming
from chop.garbage import without_garbage_collection

_parse = make_scanner(json.JSONDecoder())  # type: ignore[arg-type]  # it takes a decoder; the stub is wrong
"""Reads the JSON value at a position of a text; returns it with the position of its end."""


class Journal(JournalFileBackend):
    """The journal of a study. Written lines survive a crash of the process; after a power cut the last may be lost.

    Syncing each line to the disk would take longer than a trial.
    """

    SYNC_SECONDS = 1.0  # time between two syncs to the disk

    def __init__(self, path: Path) -> None:
        super().__init__(str(path), lock_obj=_KernelLock(path.with_suffix(".lock")))
        self._path = path
        self._synced = time.monotonic()
        self._own_lines: dict[int, str] = {}  # lines that this process has written and not read yet, by number

    def read_logs(self, log_number_from: int) -> Generator[dict[str, Any], None, None]:
        """Yield the lines from a number on; the file is read only if other processes have written to it.

        When a journal is opened, all lines are read at once, which is faster.
        """
        offsets = self._log_number_offset
        while log_number_from in self._own_lines:
            yield json.loads(self._own_lines.pop(log_number_from))
            log_number_from += 1
        if offsets.get(log_number_from) == self._path.stat().st_size:
            return
        if log_number_from == 0:
            for line in self._path.read_bytes().split(b"\n")[:-1]:
                try:
                    log, end = _parse(text := line.decode(), 0)
                except (StopIteration, ValueError):
                    break
                if end < len(text):
                    break
                offsets[log_number_from + 1] = offsets[log_number_from] + len(line) + 1
                log_number_from += 1
                yield log
        yield from super().read_logs(log_number_from)  # reports a line that is corrupt

    def append_logs(self, logs: list[dict[str, Any]]) -> None:
        """Append all lines, or none if writing fails."""
        text = "".join(json.dumps(log, separators=(",", ":")) + "\n" for log in logs)
        with naming(self._path), self._locked() as file:
            size = _remove_incomplete_line(file)
            try:
                _write_all(file, text.encode())
            except OSError:  # such as a full disk
                os.ftruncate(file, size)
                raise
            self._note_own_lines(text, size)
            if (now := time.monotonic()) - self._synced > self.SYNC_SECONDS:
                os.fsync(file)
                self._synced = now

    def _note_own_lines(self, text: str, start: int) -> None:
        """Keep lines that were written at `start`, so that they need not be read, if all lines before are known."""
        offsets = self._log_number_offset
        number = len(offsets) - 1
        if offsets[number] == start:
            for line in text.splitlines():
                self._own_lines[number] = line
                offsets[number + 1] = offsets[number] + len(line) + 1  # JSON is written in ASCII
                number += 1

    def repair(self) -> None:
        """Remove an incomplete last line, which a power cut can leave."""
        with self._locked() as file:
            _remove_incomplete_line(file)

    @contextmanager
    def _locked(self) -> Iterator[int]:
        self._lock.acquire()
        try:
            file = os.open(self._path, os.O_RDWR | os.O_APPEND)
            try:
                yield file
            finally:
                os.close(file)
        finally:
            self._lock.release()


def _remove_incomplete_line(file: int) -> int:
    """Remove a last line without a line break; return the size of the file after that."""
    size = os.fstat(file).st_size
    if size and os.pread(file, 1, size - 1) != b"\n":
        size = os.pread(file, size, 0).rfind(b"\n") + 1
        os.ftruncate(file, size)
    return size


def _write_all(file: int, content: bytes) -> None:
    while content:
        content = content[os.write(file, content) :]


class _KernelLock(JournalFileOpenLock):
    """A lock that the kernel releases when the process that holds it ends in any way."""

    def __init__(self, path: Path) -> None:
        super().__init__(str(path))
        self._path = path
        self._file: int | None = None

    def acquire(self) -> bool:
        self._file = os.open(self._path, os.O_CREAT | os.O_RDWR, 0o666)
        fcntl.flock(self._file, fcntl.LOCK_EX)
        return True

    def release(self) -> None:
        assert self._file is not None, "the lock was acquired"
        os.close(self._file)
        self._file = None


class FastJournalStorage(JournalStorage):
    """A journal storage that opens large studies faster than that of Optuna."""

    def __init__(self, journal: Journal) -> None:
        super().__init__(_EmptyJournal())
        self._backend = journal
        self._replay_result = _FastReplay(self._worker_id_prefix)
        with without_garbage_collection():
            self._sync_with_backend()


class _EmptyJournal(BaseJournalBackend):
    """A journal without lines."""

    def read_logs(self, log_number_from: int) -> Iterator[dict[str, Any]]:
        return iter(())

    def append_logs(self, logs: list[dict[str, Any]]) -> None:
        raise AssertionError("it is only read")


class _FastReplay(JournalStorageReplayResult):
    """The content of a journal, read like Optuna does it, but without its repeated work for each line."""

    def apply_logs(self, logs: Iterable[dict[str, Any]]) -> None:
        frequent = {
            JournalOperation.CREATE_TRIAL.value: self._apply_create_trial,
            JournalOperation.SET_TRIAL_STATE_VALUES.value: self._apply_set_trial_state_values,
            JournalOperation.SET_TRIAL_USER_ATTR.value: self._apply_set_trial_user_attr,
        }
        for log in logs:
            apply = frequent.get(log["op_code"])
            if apply is None:
                super().apply_logs((log,))
            else:
                self.log_number_read += 1
                apply(log)

    def _apply_create_trial(self, log: dict[str, Any]) -> None:
        study_id, trial_id = log["study_id"], len(self._trials)
        if not self._study_exists(study_id, log):
            return
        distributions = _read_distributions(
            tuple(log.get("distributions", {}).items())
        ).copy()  # a trial may add some
        trial = _JournalTrial(
            number=len(self._study_id_to_trial_ids[study_id]),
            state=_STATES[log.get("state", TrialState.RUNNING.value)],
            value=log.get("value"),
            values=log.get("values"),
            datetime_start=_local_time(log["datetime_start"]),
            datetime_complete=_local_time(log.get("datetime_complete")),
            params={name: distributions[name].to_external_repr(p) for name, p in log.get("params", {}).items()},
            distributions=distributions,
            user_attrs=log.get("user_attrs", {}),
            system_attrs=log.get("system_attrs", {}),
            intermediate_values={int(step): value for step, value in log.get("intermediate_values", {}).items()},
            trial_id=trial_id,
        )
        self._trials[trial_id] = trial
        self._study_id_to_trial_ids[study_id].append(trial_id)
        self._trial_id_to_study_id[trial_id] = study_id
        if self._is_issued_by_this_worker(log):
            self._last_created_trial_id_by_this_process = trial_id
            if trial.state is TrialState.RUNNING:
                self._worker_id_to_owned_trial_id[self.worker_id] = trial_id

    def _apply_set_trial_state_values(self, log: dict[str, Any]) -> None:
        trial_id, state = log["trial_id"], _STATES[log["state"]]
        if not self._trial_exists_and_updatable(trial_id, log):
            return
        if state is TrialState.RUNNING and self._trials[trial_id].state is state:  # another process runs it
            return
        trial = self._trials[trial_id] = copy.copy(self._trials[trial_id])
        trial.state = state
        if state is TrialState.RUNNING:
            trial.datetime_start = _local_time(log["datetime_start"])
            if self._is_issued_by_this_worker(log):
                self._worker_id_to_owned_trial_id[self.worker_id] = trial_id
        elif state in _FINISHED:
            trial.datetime_complete = _local_time(log["datetime_complete"])
        if log["values"] is not None:
            trial.values = log["values"]

    def _trial_exists_and_updatable(self, trial_id: int, log: dict[str, Any]) -> bool:
        trial = self._trials.get(trial_id)
        is_updatable = trial is not None and trial.state not in _FINISHED
        return is_updatable or super()._trial_exists_and_updatable(trial_id, log)


class _JournalTrial(FrozenTrial):
    """A trial that is copied quickly: a journal copies each trial whenever one of its lines changes it."""

    def __copy__(self) -> Self:
        new = object.__new__(type(self))
        new.__dict__ = self.__dict__.copy()
        return new


_STATES = {state.value: state for state in TrialState}
_FINISHED = tuple(state for state in TrialState if state.is_finished())


@cache
def _read_distributions(items: tuple[tuple[str, str], ...]) -> dict[str, BaseDistribution]:
    return {name: json_to_distribution(text) for name, text in items}


def _local_time(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text).astimezone().replace(tzinfo=None)
