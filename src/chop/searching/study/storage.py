"""Where a study lives: a journal file, or a database that several machines reach."""

from __future__ import annotations

import fcntl
import json
import os
import random
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import optuna
from optuna.storages import BaseStorage, InMemoryStorage, JournalStorage, RDBStorage
from optuna.storages.journal import JournalFileBackend, JournalFileOpenLock

from chop.registry import closest
from chop.runs import RunFolder
from chop.searching.study.heartbeat import Presence, PresenceByFile, PresenceByHeartbeat

MEMORY = "memory"
DRIVERS = {"sqlite": "sqlite", "postgresql": "postgresql+psycopg", "mysql": "mysql+pymysql"}
HEARTBEAT = 5
"""Seconds between two signs of life; a worker that is silent for four times as long is taken for dead."""
PATIENCE = 60  # seconds that a writer of an SQLite file waits for the others
CONNECT = 15  # seconds until a server that says nothing is given up
TRIES = 10  # of several machines that make the tables of a new database at once, all but one must try again


@dataclass(frozen=True)
class Place:
    """A storage, and the way in which its workers know of each other."""

    storage: BaseStorage
    presence: Presence


def is_database(url: str | None) -> bool:
    """Whether a study lives outside the folder of its run; what is neither file nor database is refused."""
    if url is None or url == MEMORY:
        return False
    kind = url.partition(":")[0].partition("+")[0]
    if "://" not in url or kind not in DRIVERS:
        raise ValueError(
            f"--storage takes 'memory' or a URL such as sqlite:///study.db or postgresql://user@host/name, got "
            f"'{hide_password(url)}'; {closest(kind, DRIVERS)}"
        )
    return True


def open_memory() -> Place:
    """A study that ends with this process."""
    return Place(InMemoryStorage(), Presence())


def open_journal(folder: RunFolder) -> Place:
    """The study in the folder of a run; a file that ends in the middle of a line is mended."""
    path = folder.journal
    path.parent.mkdir(parents=True, exist_ok=True)
    backend = Journal(path)
    try:
        backend.mend()
        storage = JournalStorage(backend)
    except PermissionError as error:
        raise OSError(f"cannot write in {folder.search}: {error.strerror}") from error
    except (ValueError, KeyError) as error:
        raise ValueError(f"{path} is damaged ({error}); begin a new search without --resume") from error
    return Place(storage, PresenceByFile(folder.worker_lock))


def open_database(url: str) -> Place:
    """The database at a URL."""
    scheme, _, rest = url.partition("://")
    kind = scheme.partition("+")[0]
    with explaining(url):
        try:
            storage = _connect(f"{DRIVERS.get(scheme, scheme)}://{rest}", kind)
        except ImportError as error:
            raise ValueError(f"--storage {kind} needs a driver: pip install 'chop[{kind}]'") from error
        except ValueError as error:  # such as a port that is no number
            raise ValueError(f"--storage {hide_password(url)}: {error}") from error
    return Place(storage, PresenceByHeartbeat(storage))


@contextmanager
def explaining(url: str | None) -> Iterator[None]:
    """Errors of a database in one sentence, without the password."""
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
            f"--storage {hide_password(url)}: {text.replace(password, '***') if password else text}"
        ) from error


def hide_password(url: str) -> str:
    """A URL as it may be shown and kept."""
    scheme, sign, rest = url.partition("://")
    user, at, host = rest.rpartition("@")
    return f"{scheme}{sign}{user.partition(':')[0]}{at}{host}"


def lasting(url: str) -> str:
    """A URL as it is kept in the folder of a run: usable from any folder, without the password."""
    scheme, sign, rest = url.partition("://")
    if scheme == "sqlite" and rest.startswith("/") and not rest.startswith("//") and rest not in ("/", "/:memory:"):
        return f"{scheme}{sign}/{Path(rest[1:]).absolute()}"
    return hide_password(url)


def _connect(url: str, kind: str) -> RDBStorage:
    """The storage, which also makes its tables where they are missing."""
    beat = int(os.environ.get("CHOP_SEARCH_HEARTBEAT", HEARTBEAT))
    for left in reversed(range(TRIES)):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
                storage = RDBStorage(url, _engine(kind), heartbeat_interval=beat, grace_period=4 * beat)
        except ImportError:
            raise
        except Exception as error:
            if not left or not _is_collision(error):
                raise
            time.sleep(random.uniform(0.05, 0.3))
            continue
        if kind == "sqlite":
            _lock_early(storage)
        return storage
    raise AssertionError("the last try returns or raises")


def _engine(kind: str) -> dict[str, Any]:
    if kind == "sqlite":
        return {"connect_args": {"timeout": PATIENCE}}
    return {"connect_args": {"connect_timeout": CONNECT}, "pool_pre_ping": True}


def _is_collision(error: Exception) -> bool:
    """Whether others are making the same tables at this moment."""
    text = str(error).lower()
    return isinstance(error, AssertionError) or any(
        sign in text for sign in ("already exists", "duplicate", "unique constraint", "locked", "alembic_version")
    )


def _lock_early(storage: RDBStorage) -> None:
    """SQLite has no `SELECT ... FOR UPDATE`: for a trial to be claimed once, who reads it must lock it."""
    from sqlalchemy import event

    def connected(connection: Any, _: object) -> None:
        connection.isolation_level = None  # the driver would begin by itself, and too late
        connection.execute("PRAGMA journal_mode = WAL")  # survives a kill without waiting for the disk each time
        connection.execute("PRAGMA synchronous = NORMAL")

    def began(connection: Any) -> None:
        connection.exec_driver_sql("BEGIN IMMEDIATE")

    storage.engine.dispose()  # connections from before
    event.listen(storage.engine, "connect", connected)
    event.listen(storage.engine, "begin", began)


class Journal(JournalFileBackend):
    """The journal of a study. What was written survives the death of the process at once, and a power cut soon.

    To bring each line to the disk by itself would take longer than a trial.
    """

    SYNC = 1.0  # seconds between two times that it is brought to the disk

    def __init__(self, path: Path) -> None:
        super().__init__(str(path), lock_obj=_KernelLock(path.with_suffix(".lock")))
        self._path = path
        self._synced = time.monotonic()

    def append_logs(self, logs: list[dict[str, Any]]) -> None:
        """Whole lines, or nothing."""
        text = "".join(json.dumps(log, separators=(",", ":")) + "\n" for log in logs)
        with self._locked() as file:
            size = _drop_half_line(file)
            try:
                _write_all(file, text.encode())
            except OSError:  # a full disk
                os.ftruncate(file, size)
                raise
            if (now := time.monotonic()) - self._synced > self.SYNC:
                os.fsync(file)
                self._synced = now

    def mend(self) -> None:
        """Drop what a power cut left half written at the end."""
        with self._locked() as file:
            _drop_half_line(file)

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


def _drop_half_line(file: int) -> int:
    """The size of the file after it."""
    size = os.fstat(file).st_size
    if size and os.pread(file, 1, size - 1) != b"\n":
        size = os.pread(file, size, 0).rfind(b"\n") + 1
        os.ftruncate(file, size)
    return size


def _write_all(file: int, content: bytes) -> None:
    while content:
        content = content[os.write(file, content) :]


class _KernelLock(JournalFileOpenLock):
    """A lock that ends with the process which holds it, however that ends."""

    def __init__(self, path: Path) -> None:
        super().__init__(str(path))
        self._path = path
        self._file: int | None = None

    def acquire(self) -> bool:
        self._file = os.open(self._path, os.O_CREAT | os.O_RDWR, 0o666)
        fcntl.flock(self._file, fcntl.LOCK_EX)
        return True

    def release(self) -> None:
        assert self._file is not None, "only a lock that is held is released"
        os.close(self._file)
        self._file = None
