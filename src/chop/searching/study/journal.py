"""The journal file of a study: a line per change, in the format of Optuna."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from filelock import FileLock
from optuna.storages.journal import BaseJournalBackend

from chop.files import naming

POSITION = "position"
"""The key of a line that says at which byte of the file it begins; Optuna ignores it."""
POLL_SECONDS = 0.001


class Journal(BaseJournalBackend):
    """The journal of a study. Written lines survive a crash of the process; after a power cut the last may be lost.

    Other than with the backend of Optuna, a process killed while it writes does not make the file unreadable, and
    a missing line is noticed.
    """

    SYNC_SECONDS = 1.0  # time between two syncs to the disk

    def __init__(self, path: Path) -> None:
        path.touch()
        self._path, self._lock = path, FileLock(path.with_suffix(".lock"))
        self._num_read, self._end_of_read = 0, 0
        self._synced = time.monotonic()

    def read_logs(self, log_number_from: int) -> Iterator[dict[str, Any]]:
        """Yield the lines from a number on; an incomplete last line is one that is being written, or never was."""
        if log_number_from < self._num_read:
            self._num_read, self._end_of_read = 0, 0
        with self._path.open("rb") as file:
            file.seek(self._end_of_read)
            for line in file:
                if not line.endswith(b"\n"):
                    return
                log = json.loads(line)
                if log.get(POSITION, self._end_of_read) != self._end_of_read:
                    raise ValueError(f"lines before line {self._num_read + 1} are missing or were changed")
                self._num_read += 1
                self._end_of_read += len(line)
                if self._num_read > log_number_from:
                    yield log

    def append_logs(self, logs: list[dict[str, Any]]) -> None:
        """Append all lines, or none if writing fails."""
        with (
            naming(self._path),
            self._lock.acquire(poll_interval=POLL_SECONDS),
            self._path.open("r+b", buffering=0) as file,
        ):
            start = _end_of_complete_lines(file.fileno())
            content = b""
            for log in logs:
                line = json.dumps({**log, POSITION: start + len(content)}, separators=(",", ":"))
                content += line.encode() + b"\n"
            file.truncate(start)
            file.seek(start)
            try:
                while content:
                    content = content[file.write(content) :]
            except OSError:  # such as a full disk
                file.truncate(start)
                raise
            if (now := time.monotonic()) - self._synced > self.SYNC_SECONDS:
                os.fsync(file)
                self._synced = now


def _end_of_complete_lines(file: int) -> int:
    """Return the size of a file without a last line that has no line break, as a kill can leave it."""
    size = os.fstat(file).st_size
    if size and os.pread(file, 1, size - 1) != b"\n":
        return os.pread(file, size, 0).rfind(b"\n") + 1
    return size
