"""Who works on a study: trials of the dead are to be told from those of the living."""

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


class Presence:
    """Within it, others can tell that this process lives. This one is for a study that no one else can see."""

    patience: float = 0.0
    """Seconds of silence after which a process that is not known to live is taken for dead."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return None

    def tell(self, trial_id: int) -> None:
        """This process works on a trial. Said before it claims the trial, so that none is lost in between."""

    def rest(self) -> None:
        """This process works on no trial."""

    def lost(self, study: optuna.Study) -> list[int]:
        """The ids of running trials whose worker is dead."""
        return []

    def is_alone(self) -> bool:
        """Whether it is certain that no other process works on the study."""
        return True


class PresenceByFile(Presence):
    """A lock that every worker on a journal file shares, and that the kernel takes from it when it dies.

    It is one of POSIX, not one of `flock`: trying in vain to have it alone must not lose it.
    """

    patience = 5.0

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
        assert self._file is not None, "only what was entered is left"
        os.close(self._file)
        self._file = None

    def is_alone(self) -> bool:
        assert self._file is not None, "asked from within"
        try:
            fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:  # BlockingIOError or PermissionError, as the system likes
            return False
        fcntl.lockf(self._file, fcntl.LOCK_SH)
        return True

    def lost(self, study: optuna.Study) -> list[int]:
        running = study.get_trials(deepcopy=False, states=(TrialState.RUNNING,))
        return [trial._trial_id for trial in running] if running and self.is_alone() else []


class PresenceByHeartbeat(Presence):
    """A database is told every while which trial is being worked on; silence means death."""

    def __init__(self, storage: RDBStorage) -> None:
        assert storage.heartbeat_interval is not None, "set when the storage is opened"
        assert storage.grace_period is not None, "set when the storage is opened"
        self._storage = storage
        self._interval, self.patience = storage.heartbeat_interval, storage.grace_period
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
        assert self._thread is not None, "only what was entered is left"
        self._end.set()
        self._thread.join()
        self._storage.engine.dispose()

    def tell(self, trial_id: int) -> None:
        self._trial_id = trial_id
        self._storage.record_heartbeat(trial_id)

    def rest(self) -> None:
        self._trial_id = None

    def is_alone(self) -> bool:
        return False

    def lost(self, study: optuna.Study) -> list[int]:
        return self._storage._get_stale_trial_ids(study._study_id)

    def _beat(self) -> None:
        while not self._end.wait(self._interval):
            if (trial_id := self._trial_id) is not None:
                try:
                    self._storage.record_heartbeat(trial_id)
                except optuna.exceptions.StorageInternalError as error:
                    logger.debug("the database did not hear that a trial goes on: %s", error)
