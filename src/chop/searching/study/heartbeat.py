"""Heartbeats of workers, which detect trials whose worker has crashed."""

from __future__ import annotations

import fcntl
import logging
import os
import threading
from pathlib import Path
from types import TracebackType
from typing import Self

import optuna
from optuna.storages import RDBStorage
from optuna.trial import TrialState

logger = logging.getLogger(__name__)


class Heartbeat:
    """The sign to other workers that this process is alive, while the context is open.

    This class is for a study in memory, which has one worker. Subclasses serve studies that processes share.
    """

    grace_seconds: float = 0.0
    """Seconds without a sign of life after which a process counts as crashed."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None

    def start_trial(self, trial_id: int) -> None:
        """Announce the trial that this process is about to claim; before the claim, so that it cannot get lost."""

    def end_trial(self) -> None:
        """Announce that this process runs no trial."""

    def lost_trials(self, study: optuna.Study) -> list[int]:
        """Return the ids of running trials whose worker has crashed."""
        return []

    def is_only_worker(self) -> bool:
        """Return whether it is certain that no other process works on the study."""
        return True


class LockFileHeartbeat(Heartbeat):
    """A shared lock on a file that every worker on a journal holds; the kernel releases it when a worker dies.

    It is a POSIX lock and not one of `flock`: a failed attempt to make it exclusive must not release it.
    """

    grace_seconds = 5.0

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: int | None = None

    def __enter__(self) -> Self:
        self._file = os.open(self._path, os.O_CREAT | os.O_RDWR, 0o666)
        fcntl.lockf(self._file, fcntl.LOCK_SH)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._file is not None, "the context was entered"
        os.close(self._file)
        self._file = None

    def is_only_worker(self) -> bool:
        assert self._file is not None, "called inside the context"
        try:
            fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:  # BlockingIOError or PermissionError, depending on the system
            return False
        fcntl.lockf(self._file, fcntl.LOCK_SH)
        return True

    def lost_trials(self, study: optuna.Study) -> list[int]:
        running = study.get_trials(deepcopy=False, states=(TrialState.RUNNING,))
        return [trial._trial_id for trial in running] if running and self.is_only_worker() else []


class DatabaseHeartbeat(Heartbeat):
    """A timestamp in the database for the trial that this process runs, updated at regular intervals."""

    def __init__(self, storage: RDBStorage) -> None:
        assert storage.heartbeat_interval is not None, "set when the storage is opened"
        assert storage.grace_period is not None, "set when the storage is opened"
        self._storage = storage
        self._interval, self.grace_seconds = storage.heartbeat_interval, storage.grace_period
        self._trial_id: int | None = None
        self._end = threading.Event()
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self._beat, daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._thread is not None, "the context was entered"
        self._end.set()
        self._thread.join()
        self._storage.engine.dispose()

    def start_trial(self, trial_id: int) -> None:
        self._trial_id = trial_id
        self._storage.record_heartbeat(trial_id)

    def end_trial(self) -> None:
        self._trial_id = None

    def is_only_worker(self) -> bool:
        return False

    def lost_trials(self, study: optuna.Study) -> list[int]:
        return self._storage._get_stale_trial_ids(study._study_id)

    def _beat(self) -> None:
        while not self._end.wait(self._interval):
            if (trial_id := self._trial_id) is not None:
                try:
                    self._storage.record_heartbeat(trial_id)
                except optuna.exceptions.StorageInternalError as error:
                    logger.debug("the heartbeat could not be written to the database: %s", error)
