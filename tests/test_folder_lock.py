"""The lock between processes."""

from __future__ import annotations

import logging
import threading
import time
from pathlib import Path

import pytest

from chop.folder_lock import locked


def test_a_second_process_waits_for_the_lock(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    order: list[str] = []
    inside = threading.Event()

    def second() -> None:
        inside.wait(10)
        with locked(tmp_path, "downloading"):
            order.append("second")

    thread = threading.Thread(target=second)
    thread.start()
    with caplog.at_level(logging.INFO, logger="chop"), locked(tmp_path, "downloading"):
        inside.set()
        time.sleep(0.2)
        order.append("first")
    thread.join()
    assert order == ["first", "second"]
    assert caplog.messages == ["waiting for another process that is downloading"]
