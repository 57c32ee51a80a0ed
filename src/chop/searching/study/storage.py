"""Where a study is stored: in memory, in a journal file, or in a database that several machines can reach."""

from __future__ import annotations

import fcntl
import json
import os
import random
import time
import warnings
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from json.scanner import make_scanner
from pathlib import Path
from typing import Any, Self

import optuna
from optuna.distributions import BaseDistribution, json_to_distribution
from optuna.storages import BaseStorage, InMemoryStorage, JournalStorage, RDBStorage
from optuna.storages.journal import BaseJournalBackend, JournalFileBackend, JournalFileOpenLock
from optuna.storages.journal._storage import JournalStorageReplayResult
from optuna.trial import FrozenTrial

from chop.display.extras import install_command
from chop.display.launcher import option_name
from chop.files import check_regular, naming
from chop.registry import closest
from chop.runs import RunFolder
from chop.searching.study.heartbeat import DatabaseHeartbeat, Heartbeat, LockFileHeartbeat

MEMORY = "memory"
DRIVERS = {"sqlite": "sqlite", "postgresql": "postgresql+psycopg", "mysql": "mysql+pymysql"}
HEARTBEAT_SECONDS = 5
"""Interval of heartbeats; a worker without a heartbeat for four intervals counts as crashed."""
SQLITE_LOCK_SECONDS = 60  # how long a writer waits for other writers of the file
CONNECT_SECONDS = 15  # how long to wait for a server that does not answer
MAX_CONNECT_TRIES = 10  # if several machines create the tables of a database at once, all but one must try again

_CORRUPT = (ValueError, KeyError, TypeError, AttributeError, IndexError, AssertionError, RecursionError)
"""Errors that Optuna raises for a journal with other content than its own."""


@dataclass(frozen=True)
class StudyStorage:
    """A storage of Optuna, and the heartbeat of this process for it."""

    backend: BaseStorage
    heartbeat: Heartbeat


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
    """Return a storage that ends with this process."""
    return StudyStorage(InMemoryStorage(), Heartbeat())


def open_journal(folder: RunFolder) -> StudyStorage:
    """Open the journal in a run folder, creating it if needed; an incomplete last line is removed."""
    path = folder.journal
    check_regular(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    journal = Journal(path)
    try:
        journal.repair()
        storage = _FastJournalStorage(journal)
    except PermissionError as error:
        raise OSError(f"cannot write to {folder.search}: {error.strerror}") from error
    except _CORRUPT as error:
        raise ValueError(
            f"{path} is corrupt ({type(error).__name__}: {error}); "
            f"start a new search without {option_name('resume')}"
        ) from error
    return StudyStorage(storage, LockFileHeartbeat(folder.worker_lock))


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
    return StudyStorage(storage, DatabaseHeartbeat(storage))


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
    interval = int(os.environ.get("CHOP_SEARCH_HEARTBEAT", HEARTBEAT_SECONDS))
    for tries_left in reversed(range(MAX_CONNECT_TRIES)):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
                storage = RDBStorage(
                    url, _engine_options(kind), heartbeat_interval=interval, grace_period=4 * interval
                )
        except ImportError:
            raise
        except Exception as error:
            if not tries_left or not _is_collision(error):
                raise
            time.sleep(random.uniform(0.05, 0.3))
            continue
        if kind == "sqlite":
            _lock_when_reading(storage)
        return storage
    raise AssertionError("the last try returns or raises")


def _engine_options(kind: str) -> dict[str, Any]:
    if kind == "sqlite":
        return {"connect_args": {"timeout": SQLITE_LOCK_SECONDS}}
    return {"connect_args": {"connect_timeout": CONNECT_SECONDS}, "pool_pre_ping": True}


def _is_collision(error: Exception) -> bool:
    """Return whether an error says that other processes are creating the same tables."""
    text = str(error).lower()
    return isinstance(error, AssertionError) or any(
        sign in text for sign in ("already exists", "duplicate", "unique constraint", "locked", "alembic_version")
    )


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


_parse = make_scanner(json.JSONDecoder())  # type: ignore[arg-type]  # it takes a decoder; the stub is wrong
"""Reads the JSON value at a position of a text; returns it with the position of its end."""


class _FastJournalStorage(JournalStorage):
    """A journal storage that opens a study of 20,000 trials in a fifth of the time.

    Each trial stores the choices of each dimension; those of the same dimension are read only once.
    """

    def __init__(self, journal: Journal) -> None:
        super().__init__(_EmptyJournal())
        self._backend = journal
        self._replay_result = _FastReplay(self._worker_id_prefix)
        self._sync_with_backend()


class _EmptyJournal(BaseJournalBackend):
    """A journal without lines."""

    def read_logs(self, log_number_from: int) -> Iterator[dict[str, Any]]:
        return iter(())

    def append_logs(self, logs: list[dict[str, Any]]) -> None:
        raise AssertionError("it is only read")


class _FastReplay(JournalStorageReplayResult):
    """The content of a journal."""

    def _apply_create_trial(self, log: dict[str, Any]) -> None:
        trial_id = len(self._trials)
        super()._apply_create_trial({**log, "distributions": {}, "params": {}})
        if "params" in log and trial_id in self._trials:  # not if the study was deleted
            distributions = {name: _read_distribution(text) for name, text in log["distributions"].items()}
            trial = self._trials[trial_id]
            trial.__class__ = _JournalTrial
            trial.distributions = distributions
            trial.params = {name: distributions[name].to_external_repr(p) for name, p in log["params"].items()}


class _JournalTrial(FrozenTrial):
    """A trial that is copied quickly: a journal copies each trial whenever one of its lines changes it."""

    def __copy__(self) -> Self:
        new = object.__new__(type(self))
        new.__dict__.update(self.__dict__)
        return new


@cache
def _read_distribution(text: str) -> BaseDistribution:
    return json_to_distribution(text)


class Journal(JournalFileBackend):
    """The journal of a study. Written lines survive a crash of the process; after a power cut the last may be lost.

    Syncing each line to the disk would take longer than a trial.
    """

    SYNC_SECONDS = 1.0  # time between two syncs to the disk

    def __init__(self, path: Path) -> None:
        super().__init__(str(path), lock_obj=_KernelLock(path.with_suffix(".lock")))
        self._path = path
        self._synced = time.monotonic()

    def read_logs(self, log_number_from: int) -> Generator[dict[str, Any], None, None]:
        """Yield the lines from a number on; when a journal is opened, all are read at once, which is faster."""
        if log_number_from == 0:
            offsets = self._log_number_offset
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
            if (now := time.monotonic()) - self._synced > self.SYNC_SECONDS:
                os.fsync(file)
                self._synced = now

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
