"""Storages of studies: nothing written is lost, and errors are reported in one sentence."""

from __future__ import annotations

import socket
import sys
from pathlib import Path

import optuna
import pytest

from chop.runs import RunFolder
from chop.searching.study import storage as module
from chop.searching.study.storage import (
    hide_password,
    is_database,
    open_database,
    open_journal,
    portable_url,
)


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


@pytest.mark.slow
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


@pytest.mark.slow
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


def test_a_corrupt_journal_is_reported(tmp_path: Path) -> None:
    (tmp_path / "search").mkdir()
    (tmp_path / "search" / "study.journal").write_text("garbage\nmore garbage\n")
    with pytest.raises(ValueError, match=r"study.journal is corrupt .*; start a new search without 'resume'"):
        open_journal(RunFolder(tmp_path))
