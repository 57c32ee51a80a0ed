"""The cache folder, connections in time, progress, and locks."""

from __future__ import annotations

import io
import logging
import socket
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from local_server import serve

from chop.dataset.download import cache, connection, progress, transfer
from chop.dataset.download.lock import locked


def test_the_cache_folder_is_the_one_the_user_names(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CHOP_CACHE", str(tmp_path))
    assert cache.cache_folder("jsc") == tmp_path / "jsc"
    monkeypatch.setenv("CHOP_CACHE", "~/somewhere")
    assert cache.cache_folder("jsc") == Path.home() / "somewhere" / "jsc"


@pytest.mark.parametrize(
    ("system", "environment", "expected"),
    [
        ("linux", {}, "~/.cache/chop"),
        ("linux", {"XDG_CACHE_HOME": "/scratch/cache"}, "/scratch/cache/chop"),
        ("linux", {"XDG_CACHE_HOME": "relative"}, "~/.cache/chop"),  # as the specification has it
        ("darwin", {"XDG_CACHE_HOME": "/scratch/cache"}, "~/Library/Caches/chop"),
        ("win32", {"LOCALAPPDATA": "/users/me/local"}, "/users/me/local/chop/Cache"),
        ("win32", {}, "~/AppData/Local/chop/Cache"),
    ],
)
def test_every_platform_has_its_cache_folder(system: str, environment: dict[str, str], expected: str) -> None:
    assert cache.platform_cache(system, environment) == Path(expected).expanduser()


@pytest.mark.parametrize(("value", "expected"), [("1", True), ("yes", True), ("0", False), ("", False)])
def test_offline_is_asked_for(monkeypatch: pytest.MonkeyPatch, value: str, expected: bool) -> None:
    monkeypatch.setenv("CHOP_OFFLINE", value)
    assert cache.is_offline() is expected


def test_a_name_server_that_does_not_answer_is_given_up_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    looked_up = threading.Event()

    def look_up(*_: Any, **__: Any) -> Any:
        looked_up.wait(10)
        raise socket.gaierror(socket.EAI_AGAIN, "too late")

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    monkeypatch.setattr(connection, "CONNECT_TIMEOUT", 0.1)
    monkeypatch.setattr(transfer, "_failures", {})
    monkeypatch.delenv("CHOP_OFFLINE", raising=False)
    monkeypatch.setenv("no_proxy", "*")
    start = time.monotonic()
    with pytest.raises(transfer.DownloadError, match=r"^data\.example does not answer in time$"):
        transfer.fetch_text("https://data.example/file")
    assert time.monotonic() - start < 5
    looked_up.set()


def test_a_connection_that_stands_too_late_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    with serve(b"") as site:
        late = connection._PlainConnection("127.0.0.1", int(site.url.split(":")[2].split("/")[0]))
        go_on, done = threading.Event(), threading.Event()

        def connect() -> None:
            go_on.wait(10)
            super(connection._PlainConnection, late).connect()

        def close() -> None:
            super(connection._PlainConnection, late).close()
            done.set()

        monkeypatch.setattr(late, "close", close)
        monkeypatch.setattr(connection, "CONNECT_TIMEOUT", 0.05)
        with pytest.raises(TimeoutError, match=r"no connection within 0.05 s"):
            connection._connect_in_time(late, connect)
        go_on.set()
        assert done.wait(10)


def test_a_terminal_gets_one_line_that_is_rewritten(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = io.StringIO()
    monkeypatch.setattr(terminal, "isatty", lambda: True)
    monkeypatch.setattr(sys, "stderr", terminal)
    with progress.Progress("data.bin", 0, 1_000_000) as bar:
        bar.update(1_000_000)
    line = terminal.getvalue()
    assert line.startswith("\rdata.bin: 100 % of 1.0 MB, ")
    assert line.endswith("\n")
    assert line.count("\n") == 1


def test_elsewhere_every_tenth_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, logger="chop"), progress.Progress("data.bin", 500_000, 1_000_000) as bar:
        for done in range(500_000, 1_000_001, 10_000):
            bar.update(done)
    assert [message.split(" of ")[0] for message in caplog.messages[1:]] == [
        f"data.bin: {percent} %" for percent in (60, 70, 80, 90, 100)
    ]


def test_a_file_of_unknown_size_is_told_in_megabytes(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, logger="chop"), progress.Progress("data.bin", 0, None) as bar:
        bar.update(60_000_000)
    assert caplog.messages[0] == "downloading data.bin (size unknown)"
    assert caplog.messages[1].startswith("data.bin: 60.0 MB, ")


def test_one_at_a_time_is_in_a_locked_folder(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    order: list[str] = []
    inside = threading.Event()

    def second() -> None:
        inside.wait(10)
        with locked(tmp_path):
            order.append("second")

    thread = threading.Thread(target=second)
    thread.start()
    with caplog.at_level(logging.INFO, logger="chop"), locked(tmp_path):
        inside.set()
        time.sleep(0.2)
        order.append("first")
    thread.join()
    assert order == ["first", "second"]
    assert caplog.messages == [f"waiting for another process that fetches files to {tmp_path}"]
