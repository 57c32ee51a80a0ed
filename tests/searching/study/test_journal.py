"""The journal of a study: complete lines only."""

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
from io import FileIO
from pathlib import Path
from typing import Any

import optuna
import pytest
from filelock import FileLock

from chop.runs import RunFolder
from chop.searching.study.journal import Journal
from chop.searching.study.storage import open_journal


def numbers(path: Path) -> list[int]:
    return [json.loads(line)["n"] for line in path.read_text().splitlines()]


def logs(path: Path) -> list[int]:
    return [log["n"] for log in Journal(path).read_logs(0)]


def test_an_incomplete_last_line_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "study.journal"
    path.write_bytes(b'{"n":1}\n{"n":2}\n{"n"')
    assert logs(path) == [1, 2]


@pytest.mark.parametrize("missing", [0, 1, 2])
def test_a_missing_line_is_noticed(tmp_path: Path, missing: int) -> None:
    path = tmp_path / "study.journal"
    Journal(path).append_logs([{"n": 1}, {"n": 2}])
    Journal(path).append_logs([{"n": 3}, {"n": 4}])
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:missing] + lines[missing + 1 :]))
    with pytest.raises(ValueError, match=f"^lines before line {missing + 1} are missing or were changed$"):
        logs(path)


def test_lines_of_programs_that_do_not_number_their_bytes_are_read(tmp_path: Path) -> None:
    """Such as optuna-dashboard, and earlier versions."""
    path = tmp_path / "study.journal"
    for number in (1, 3):
        with path.open("a") as file:
            file.write(json.dumps({"n": number}) + "\n")
        Journal(path).append_logs([{"n": number + 1}])
    assert logs(path) == [1, 2, 3, 4]


def test_the_next_write_removes_an_incomplete_line(tmp_path: Path) -> None:
    path = tmp_path / "study.journal"
    journal = Journal(path)
    journal.append_logs([{"n": 1}])
    with path.open("ab") as file:
        file.write(b'{"n":2')
    journal.append_logs([{"n": 3}, {"n": 4}])
    assert numbers(path) == [1, 3, 4] == logs(path)


def test_a_full_disk_leaves_complete_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "study.journal"
    journal = Journal(path)
    journal.append_logs([{"n": 1}])
    before = path.read_bytes()
    write = FileIO.write

    class FullDisk(FileIO):
        def write(self, content: Any) -> int:
            if len(content) < 5:
                raise OSError(errno.ENOSPC, "No space left on device")
            return write(self, content[:-4])

    with monkeypatch.context() as patch:
        patch.setattr(Path, "open", lambda path, mode, **_: FullDisk(path, mode))
        with pytest.raises(OSError, match=r"No space left.*study\.journal"):
            journal.append_logs([{"n": 2}])
    assert path.read_bytes() == before


def _append(path: Path, first: int) -> None:
    journal = Journal(path)
    for number in range(first, first + 50):
        journal.append_logs([{"n": number, "filler": "x" * 2000}])


@pytest.mark.slow
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
    with FileLock(path.with_suffix(".lock")):
        os._exit(1)


@pytest.mark.slow
def test_a_lock_is_released_when_its_process_crashes(tmp_path: Path) -> None:
    path = tmp_path / "study.journal"
    process = multiprocessing.get_context("fork").Process(target=_crash_with_lock, args=(path,))
    process.start()
    process.join()
    assert process.exitcode == 1
    Journal(path).append_logs([{"n": 1}])
    assert numbers(path) == [1]


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


def test_lines_of_two_processes_are_read_in_their_order(tmp_path: Path) -> None:
    path = tmp_path / "study.journal"
    first, second = Journal(path), Journal(path)
    first.append_logs([{"n": 1}, {"n": 2}])
    second.append_logs([{"n": 3}])
    first.append_logs([{"n": 4}])
    for journal in (first, second):
        assert [log["n"] for log in journal.read_logs(0)] == [1, 2, 3, 4]
    first.append_logs([{"n": 5}])
    for journal in (first, second):
        assert [log["n"] for log in journal.read_logs(4)] == [5]
        assert [log["n"] for log in journal.read_logs(2)] == [3, 4, 5]
        assert list(journal.read_logs(5)) == []
