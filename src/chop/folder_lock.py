"""Locks on folders between processes; the system releases a lock when its process ends in any way."""

from __future__ import annotations

import logging
import os
import re
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from chop.files import write_text

logger = logging.getLogger(__name__)

LOCK = ".lock"
OWNER, MAX_OWNER_LENGTH = ".lock.owner", 300
"""The file that names the process which holds the lock."""


class FolderLockedError(ValueError):
    """Another process writes to the folder."""


@contextmanager
def locked(folder: Path, doing: str) -> Iterator[None]:
    """Wait until no other process holds the lock of `folder`.

    `doing` says in the log what the other process does, such as "downloading to a folder".
    """
    lock = FileLock(folder / LOCK)
    try:
        held = lock.acquire(timeout=0)
    except Timeout:
        logger.info("waiting for another process that is %s", doing)
        held = lock.acquire()
    with held:
        yield


@contextmanager
def only_writer(folder: Path) -> Iterator[None]:
    """Hold the lock of `folder`; raise FolderLockedError, which names the process, if another one holds it."""
    try:
        held = FileLock(folder / LOCK).acquire(timeout=0)
    except Timeout:
        raise FolderLockedError(f"{_owner(folder)} is writing to {folder}: wait for it, or stop it first") from None
    with held:
        write_text(folder / OWNER, f"process {os.getpid()} on {socket.gethostname()}")
        try:
            yield
        finally:
            (folder / OWNER).unlink(missing_ok=True)


def _owner(folder: Path) -> str:
    text = ""
    if (path := folder / OWNER).is_file():
        with path.open("rb") as file:
            text = file.read(MAX_OWNER_LENGTH).decode(errors="replace")
    return text if re.fullmatch(r"process \d+ on [\w.-]+", text) else "another process"
