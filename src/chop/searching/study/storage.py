"""Where a study is stored: in memory, in a journal file, or in a database that several machines can reach."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import optuna
from optuna.storages import BaseStorage, InMemoryStorage, JournalStorage, RDBStorage

from chop.display.extras import install_command
from chop.display.launcher import option_name
from chop.files import check_regular
from chop.registry import closest
from chop.runs import RunFolder
from chop.searching.study.heartbeat import Heartbeats
from chop.searching.study.journal import Journal

MEMORY = "memory"
DRIVERS = {"sqlite": "sqlite", "postgresql": "postgresql+psycopg", "mysql": "mysql+pymysql"}
HEARTBEAT_SECONDS = 5
"""Interval of heartbeats."""
SQLITE_LOCK_SECONDS = 60  # how long a writer waits for other writers of the file
CONNECT_SECONDS = 15  # how long to wait for a server that does not answer
MAX_CONNECT_TRIES = 10  # if several machines create the tables of a database at once, all but one must try again

_CORRUPT = (ValueError, KeyError, TypeError, AttributeError, IndexError, AssertionError, RecursionError)
"""Errors that Optuna raises for a journal with other content than its own."""


@dataclass(frozen=True)
class StudyStorage:
    """A storage of Optuna, and heartbeats if several machines can work on its studies."""

    backend: BaseStorage
    heartbeats: Heartbeats | None = None

    def close(self) -> None:
        """Close the connections to a database; using it again opens new ones."""
        if isinstance(self.backend, RDBStorage):
            self.backend.engine.dispose()


def is_database(url: str | None) -> bool:
    """Return whether `--storage` names a database; raise ValueError if it is neither that nor "memory"."""
    if url is None or url == MEMORY:
        return False
    kind = url.partition(":")[0].partition("+")[0]
    if "://" not in url or kind not in DRIVERS:
        raise ValueError(
            f"{option_name('storage')} takes 'memory' or a URL such as sqlite:///study.db or "
            f"postgresql://user@host/name, got '{hide_password(url)}'; {closest(kind, DRIVERS)}"
        )
    return True


def open_memory() -> StudyStorage:
    """Return a storage that lasts as long as this process."""
    return StudyStorage(InMemoryStorage())


def open_journal(folder: RunFolder) -> StudyStorage:
    """Open the journal in a run folder, creating it if needed."""
    path = folder.journal
    check_regular(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        return StudyStorage(JournalStorage(Journal(path)))
    except PermissionError as error:
        raise OSError(f"cannot write to {folder.search}: {error.strerror}") from error
    except _CORRUPT as error:
        raise ValueError(
            f"{path} is corrupt ({type(error).__name__}: {error}); "
            f"start a new search without {option_name('resume')}"
        ) from error


def open_database(url: str) -> StudyStorage:
    """Open the database at a URL, creating its tables if needed."""
    scheme, _, rest = url.partition("://")
    kind = scheme.partition("+")[0]
    with database_errors_explained(url):
        try:
            storage = _connect(f"{DRIVERS.get(scheme, scheme)}://{rest}", kind)
        except ImportError as error:
            raise ValueError(f"{option_name('storage')} {kind} needs a driver: {install_command(kind)}") from error
        except ValueError as error:  # such as a port that is not a number
            raise ValueError(f"{option_name('storage')} {hide_password(url)}: {error}") from error
    interval = float(os.environ.get("CHOP_SEARCH_HEARTBEAT", HEARTBEAT_SECONDS))
    return StudyStorage(storage, Heartbeats(storage, interval))


@contextmanager
def database_errors_explained(url: str | None) -> Iterator[None]:
    """Raise errors of the database as an OSError of one line, without the password."""
    if url is None or url == MEMORY:
        yield
        return
    try:
        yield
    except Exception as error:
        cause = error.__cause__ if isinstance(error, optuna.exceptions.StorageInternalError) else error
        if not type(cause).__module__.startswith("sqlalchemy"):
            raise
        text = " ".join(str(getattr(cause, "orig", None) or cause).split())
        password = url.partition("://")[2].rpartition("@")[0].partition(":")[2]
        raise OSError(
            f"{option_name('storage')} {hide_password(url)}: {text.replace(password, '***') if password else text}"
        ) from error


def hide_password(url: str) -> str:
    """Return a URL without its password."""
    scheme, sign, rest = url.partition("://")
    user, at, host = rest.rpartition("@")
    return f"{scheme}{sign}{user.partition(':')[0]}{at}{host}"


def portable_url(url: str) -> str:
    """Return a URL as a run folder keeps it: valid in every working directory, and without the password."""
    scheme, sign, rest = url.partition("://")
    if scheme == "sqlite" and rest.startswith("/") and not rest.startswith("//") and rest not in ("/", "/:memory:"):
        return f"{scheme}{sign}/{Path(rest[1:]).absolute()}"
    return hide_password(url)


def _connect(url: str, kind: str) -> RDBStorage:
    """Open a database and create its tables if they are missing."""
    options: dict[str, Any] = {"connect_args": {"connect_timeout": CONNECT_SECONDS}, "pool_pre_ping": True}
    if kind == "sqlite":
        options = {"connect_args": {"timeout": SQLITE_LOCK_SECONDS}}
    for tries_left in reversed(range(MAX_CONNECT_TRIES)):
        try:
            storage = RDBStorage(url, options)
        except Exception as error:
            if isinstance(error, ImportError) or not tries_left or not _is_collision(error):
                raise
            time.sleep(random.uniform(0.05, 0.3))
            continue
        if kind == "sqlite":
            _lock_when_reading(storage)
        return storage
    raise AssertionError("the last try returns or raises")


def _is_collision(error: Exception) -> bool:
    """Return whether an error says that other processes are creating the same tables."""
    signs = ("already exists", "duplicate", "unique constraint", "locked", "alembic_version")
    return isinstance(error, AssertionError) or any(sign in str(error).lower() for sign in signs)


def _lock_when_reading(storage: RDBStorage) -> None:
    """Lock an SQLite file from the start of a transaction, so that a trial cannot be claimed twice.

    SQLite has no `SELECT ... FOR UPDATE`: by default it locks the file only when a transaction writes.
    """
    from sqlalchemy import event

    def on_connect(connection: Any, _: object) -> None:
        connection.isolation_level = None  # otherwise the driver begins the transaction itself, and too late
        connection.execute("PRAGMA journal_mode = WAL")  # survives a kill without a disk sync per transaction
        connection.execute("PRAGMA synchronous = NORMAL")

    def on_begin(connection: Any) -> None:
        connection.exec_driver_sql("BEGIN IMMEDIATE")

    storage.engine.dispose()  # existing connections lack these settings
    event.listen(storage.engine, "connect", on_connect)
    event.listen(storage.engine, "begin", on_begin)
