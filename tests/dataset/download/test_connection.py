"""Time-outs of connections."""

from __future__ import annotations

import socket
import threading
import time
from typing import Any

import pytest

from chop.dataset.download import connection, transfer
from dataset.local_server import serve


def test_a_slow_name_server_times_out(monkeypatch: pytest.MonkeyPatch) -> None:
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
    with pytest.raises(transfer.DownloadError, match=r"^data\.example did not respond in time$"):
        transfer.fetch_text("https://data.example/file")
    assert time.monotonic() - start < 5
    looked_up.set()


def test_a_connection_after_the_time_out_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
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
