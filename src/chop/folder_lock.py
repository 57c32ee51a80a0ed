"""A lock on a folder between processes, on every platform; it is released when its process ends."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

logger = logging.getLogger(__name__)


@contextmanager
def locked(folder: Path, doing: str) -> Iterator[None]:
    """Wait until no other process holds the lock of `folder`, an empty file called .lock.

    `doing` says in the log what the other process does, such as "downloading to a folder".
    """
    with (folder / ".lock").open("a", encoding="utf-8") as file:
        if not _try_lock(file):
            logger.info("waiting for another process that is %s", doing)
            while not _try_lock(file):
                time.sleep(0.1)
        yield


if sys.platform == "win32":
    import msvcrt

    def _try_lock(file: IO[str]) -> bool:
        file.seek(0)
        try:
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        except PermissionError:
            return False
        return True

else:
    import fcntl

    def _try_lock(file: IO[str]) -> bool:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True
