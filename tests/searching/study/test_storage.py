"""Storages of studies: nothing written is lost, and errors are reported in one sentence."""

from __future__ import annotations

import errno
import json
import multiprocessing
import os
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import optuna
import pytest

from chop.runs import RunFolder
from chop.searching.space.space import OptionChoices, Space
from chop.searching.study import storage as module
from chop.searching.study.heartbeat import LockFileHeartbeat
from chop.searching.study.storage import (
    Journal,
    hide_password,
    is_database,
    open_database,
    open_journal,
    portable_url,
)
from chop.searching.study.study import Study

SPACE = Space((), (OptionChoices("s", {"x": (1, 2, 3)}),))


def numbers(path: Path) -> list[int]:
    return [json.loads(line)["n"] for line in path.read_text().splitlines()]


def test_an_incomplete_last_line_is_removed(tmp_path: Path) -> None:
    path = tmp_path / "study.journal"
    path.write_bytes(b'{"n":1}\n{"n":2}\n{"n"')
    Journal(path).repair()
    assert path.read_bytes() == b'{"n":1}\n{"n":2}\n'


def test_the_next_write_removes_an_incomplete_line(tmp_path: Path) -> None:
    path = tmp_path / "study.journal"
    journal = Journal(path)
    journal.append_logs([{"n": 1}])
    with path.open("ab") as file:
        file.write(b'{"n":2')
    journal.append_logs([{"n": 3}, {"n": 4}])
    assert numbers(path) == [1, 3, 4]
    assert list(Journal(path).read_logs(0)) == [{"n": 1}, {"n": 3}, {"n": 4}]


def test_a_full_disk_leaves_complete_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "study.journal"
    journal = Journal(path)
    journal.append_logs([{"n": 1}])
    write = os.write

    def write_partly(file: int, content: bytes) -> int:
        if len(content) < 5:
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(file, content[:-4])

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", write_partly)
        with pytest.raises(OSError, match=r"No space left.*study\.journal"):
            journal.append_logs([{"n": 2}])
    assert path.read_bytes() == b'{"n":1}\n'


def _append(path: Path, first: int) -> None:
    journal = Journal(path)
    for number in range(first, first + 50):
        journal.append_logs([{"n": number, "filler": "x" * 2000}])


def test_lines_of_concurrent_writers_do_not_mix(tmp_path: Path) -> None:
    path = tmp_path / "study.journal"
    context = multiprocessing.get_context("fork")
    writers = [context.Process(target=_append, args=(path, 50 * index)) for index in range(3)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert sorted(numbers(path)) == list(range(150))


def _crash_with_lock(path: Path) -> None:
    with Journal(path)._locked():
        os._exit(1)


def _stay(path: Path, seconds: float, ready: object) -> None:
    with LockFileHeartbeat(path):
        ready.set()  # type: ignore[attr-defined]
        multiprocessing.Event().wait(seconds)


def test_a_lock_is_released_when_its_process_crashes(tmp_path: Path) -> None:
    path = tmp_path / "study.journal"
    process = multiprocessing.get_context("fork").Process(target=_crash_with_lock, args=(path,))
    process.start()
    process.join()
    assert process.exitcode == 1
    Journal(path).append_logs([{"n": 1}])
    assert numbers(path) == [1]


def test_a_worker_detects_whether_others_are_alive(tmp_path: Path) -> None:
    path = tmp_path / "workers.lock"
    context = multiprocessing.get_context("fork")
    ready = context.Event()
    process = context.Process(target=_stay, args=(path, 600, ready))
    with LockFileHeartbeat(path) as heartbeat:
        assert heartbeat.is_only_worker()
        process.start()
        assert ready.wait(60)
        assert not heartbeat.is_only_worker()
        assert not heartbeat.is_only_worker(), "asking does not release the lock"
        process.kill()
        process.join()
        assert heartbeat.is_only_worker()


def test_a_failed_check_does_not_release_the_own_lock(tmp_path: Path) -> None:
    """With `flock`, a worker that checks whether it is the only one would lose its lock."""
    path = tmp_path / "workers.lock"
    context = multiprocessing.get_context("fork")
    ready, answer = context.Event(), context.Queue()
    with LockFileHeartbeat(path) as heartbeat:
        process = context.Process(target=_stay, args=(path, 600, ready))
        process.start()
        assert ready.wait(60)
        heartbeat.is_only_worker()
        other = context.Process(target=_ask_whether_only_worker, args=(path, answer))
        process.kill()
        process.join()
        other.start()
        assert answer.get(timeout=60) is False
        other.join()


def _ask_whether_only_worker(path: Path, answer: object) -> None:
    with LockFileHeartbeat(path) as heartbeat:
        answer.put(heartbeat.is_only_worker())  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://me:secret@host:5432/name", "postgresql://me@host:5432/name"),
        ("postgresql://me:s@cret@host/name", "postgresql://me@host/name"),
        ("postgresql+psycopg://me@host/name", "postgresql+psycopg://me@host/name"),
        ("sqlite:///study.db", "sqlite:///study.db"),
    ],
)
def test_a_password_is_not_shown(url: str, shown: str) -> None:
    assert hide_password(url) == shown


def test_the_url_kept_by_a_run_is_valid_in_every_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert portable_url("sqlite:///study.db") == f"sqlite:///{tmp_path}/study.db"
    assert portable_url("sqlite:////data/study.db") == "sqlite:////data/study.db"
    assert portable_url("mysql://me:secret@host/name") == "mysql://me@host/name"
    assert portable_url("memory") == "memory"


def test_unknown_storages_are_refused() -> None:
    assert not is_database(None)
    assert not is_database("memory")
    assert is_database("mysql+pymysql://me@host/name")
    with pytest.raises(ValueError, match=r"'storage' takes 'memory' or a URL .* did you mean 'postgresql'"):
        is_database("postgres://me@host/name")
    with pytest.raises(ValueError, match=r"got 'redis://me@host'") as caught:
        is_database("redis://me:secret@host")
    assert "secret" not in str(caught.value)


def test_a_refused_connection_is_reported_without_the_password() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(OSError, match=r"'storage' postgresql://me@127.0.0.1:\d+/x: .*refused") as caught:
        open_database(f"postgresql://me:sec%20ret@127.0.0.1:{port}/x")
    assert "sec" not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_missing_folder_is_reported(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="unable to open database file"):
        open_database(f"sqlite:///{tmp_path}/missing/study.db")


def test_a_missing_driver_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pymysql", None)
    with pytest.raises(ValueError, match=r"'storage' mysql needs a driver: .* -m pip install pymysql$"):
        open_database("mysql://me:secret@host/name")


def test_a_port_that_is_not_a_number_is_reported() -> None:
    with pytest.raises(ValueError, match=r"'storage' postgresql://me@host:abc/name: .*'abc'"):
        open_database("postgresql://me@host:abc/name")


def test_opening_a_database_is_repeated_while_others_create_its_tables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries = []

    class Busy(optuna.storages.RDBStorage):
        def __init__(self, *arguments: object, **options: object) -> None:
            tries.append(1)
            if len(tries) < 3:
                raise RuntimeError("table studies already exists")
            super().__init__(*arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(module, "RDBStorage", Busy)
    open_database(f"sqlite:///{tmp_path}/study.db")
    assert len(tries) == 3


def test_a_journal_can_be_read_by_optuna_itself(tmp_path: Path) -> None:
    study = optuna.create_study(storage=open_journal(RunFolder(tmp_path)).backend, study_name="s")
    study.tell(study.ask(), 0.5)
    plain = optuna.storages.JournalStorage(
        optuna.storages.journal.JournalFileBackend(str(tmp_path / "search" / "study.journal"))
    )
    assert optuna.load_study(study_name="s", storage=plain).best_value == 0.5


@pytest.mark.slow
def test_optuna_dashboard_shows_a_journal(tmp_path: Path) -> None:
    pytest.importorskip("optuna_dashboard", reason="optuna-dashboard is not installed")
    study = optuna.create_study(storage=open_journal(RunFolder(tmp_path)).backend, study_name="widths of layers")
    study.tell(study.ask(), 0.5)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = Path(sys.executable).with_name("optuna-dashboard")
    process = subprocess.Popen(
        [command, tmp_path / "search" / "study.journal", "--port", str(port)], stderr=subprocess.DEVNULL
    )
    try:
        end = time.monotonic() + 60
        while True:
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/api/studies") as page:
                    (shown,) = json.load(page)["study_summaries"]
                break
            except OSError:
                assert time.monotonic() < end, "the dashboard does not answer"
                time.sleep(0.2)
    finally:
        process.kill()
        process.wait()
    assert shown["study_name"] == "widths of layers"


def test_a_corrupt_journal_is_reported(tmp_path: Path) -> None:
    (tmp_path / "search").mkdir()
    (tmp_path / "search" / "study.journal").write_text("garbage\nmore garbage\n")
    with pytest.raises(ValueError, match=r"study.journal is corrupt .*; start a new search without 'resume'"):
        open_journal(RunFolder(tmp_path))


def test_opening_a_journal_reads_each_distribution_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Reading the choices of each dimension of each trial made up most of the time of opening 20,000 trials."""
    folder = RunFolder(tmp_path)
    with (written := open_journal(folder)).heartbeat:
        study = Study.create(written, "s", ["maximize"])
        assert study is not None
        study.plan([{"s/x": 1 + number % 3} for number in range(30)], SPACE)
    calls: list[str] = []

    def counting(text: str) -> optuna.distributions.BaseDistribution:
        calls.append(text)
        return optuna.distributions.json_to_distribution(text)

    monkeypatch.setattr(module, "json_to_distribution", counting)
    module._read_distribution.cache_clear()
    again = Study.load(open_journal(folder), "s")
    assert again is not None
    assert [record.params["s/x"] for record in again.records()] == [1 + number % 3 for number in range(30)]
    assert len(calls) == 1
