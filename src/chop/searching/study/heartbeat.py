"""Heartbeats of trials in a database, which detect trials whose worker has crashed."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count

from optuna.exceptions import StorageInternalError, UpdateFinishedTrialError
from optuna.storages import BaseStorage
from optuna.trial import FrozenTrial

logger = logging.getLogger(__name__)

HEARTBEAT = "heartbeat"
"""The user attribute of a running trial that changes at regular intervals."""
MAX_MISSED = 4
"""A worker that has not written so many heartbeats counts as crashed."""


class Heartbeats:
    """The heartbeats of the trials that this process runs, and those of other workers."""

    def __init__(self, storage: BaseStorage, seconds: float) -> None:
        """Write to `storage` every `seconds`."""
        self._storage, self._seconds = storage, seconds
        self._seen: dict[int, tuple[object, float]] = {}  # by trial: its last heartbeat, and when it was first seen

    @property
    def grace_seconds(self) -> float:
        """Time without a sign of life after which a process counts as crashed."""
        return MAX_MISSED * self._seconds

    @contextmanager
    def of_trial(self, trial_id: int) -> Iterator[None]:
        """Write heartbeats while the context is open."""
        end = threading.Event()
        thread = threading.Thread(target=self._beat, args=(trial_id, end), daemon=True)
        thread.start()
        try:
            yield
        finally:
            end.set()
            thread.join()

    def _beat(self, trial_id: int, end: threading.Event) -> None:
        for number in count():
            if end.wait(self._seconds):
                return
            try:
                self._storage.set_trial_user_attr(trial_id, HEARTBEAT, number)
            except (StorageInternalError, UpdateFinishedTrialError) as error:
                logger.debug("the heartbeat could not be written to the database: %s", error)

    def have_stopped(self, trial: FrozenTrial) -> bool:
        """Return whether no heartbeat of a running trial was seen for long; machines may have different clocks."""
        sign, now = (trial.datetime_start, trial.user_attrs.get(HEARTBEAT)), time.monotonic()
        seen, since = self._seen.get(trial.number, (None, now))
        if seen != sign:
            self._seen[trial.number] = sign, now
        return seen == sign and now - since > self.grace_seconds
