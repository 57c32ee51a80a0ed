"""Progress of a download on a terminal and in the log."""

from __future__ import annotations

import io
import logging
import sys

import pytest

from chop.dataset.download import progress


def test_a_line_on_the_terminal_is_updated(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = io.StringIO()
    monkeypatch.setattr(terminal, "isatty", lambda: True)
    monkeypatch.setattr(sys, "stderr", terminal)
    with progress.Progress("data.bin", 0, 1_000_000) as bar:
        bar.update(1_000_000)
    line = terminal.getvalue()
    assert line.startswith("\rdata.bin: 100 % of 1.0 MB, ")
    assert line.endswith("\n")
    assert line.count("\n") == 1


def test_without_a_terminal_every_tenth_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, logger="chop"), progress.Progress("data.bin", 500_000, 1_000_000) as bar:
        for done in range(500_000, 1_000_001, 10_000):
            bar.update(done)
    assert [message.split(" of ")[0] for message in caplog.messages[1:]] == [
        f"data.bin: {percent} %" for percent in (60, 70, 80, 90, 100)
    ]


def test_the_progress_of_an_unknown_size_is_in_megabytes(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, logger="chop"), progress.Progress("data.bin", 0, None) as bar:
        bar.update(60_000_000)
    assert caplog.messages[0] == "downloading data.bin (size unknown)"
    assert caplog.messages[1].startswith("data.bin: 60.0 MB, ")
