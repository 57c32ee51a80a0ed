"""The status line, the bar and the clock that trainings and searches share."""

from __future__ import annotations

import io
import sys
import threading
import time
from contextlib import redirect_stderr

import pytest

from chop.display.progress import ProgressBar, Stage, StatusLine, bar, clock


@pytest.mark.parametrize(("seconds", "text"), [(0, "0:00"), (61, "1:01"), (3723, "1:02:03")])
def test_a_duration_reads_as_a_clock(seconds: float, text: str) -> None:
    assert clock(seconds) == text


@pytest.mark.parametrize(("share", "text"), [(0, "╌" * 20), (0.5, "━" * 10 + "╌" * 10), (1, "━" * 20)])
def test_a_bar_is_filled_by_the_share(share: float, text: str) -> None:
    assert bar(share) == text


def test_without_a_terminal_only_permanent_lines_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    line = StatusLine()
    line.draw("50 %")
    line.print("half of it")
    line.close()
    assert capsys.readouterr().err == "half of it\n"


def test_a_bar_shows_what_is_done_and_the_time_left(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    times = iter([0.0, 10.0, 31.0, 62.0])
    monkeypatch.setattr("chop.display.progress.time.perf_counter", lambda: next(times))
    with ProgressBar("evaluating", 4) as progress:
        progress.step()  # 10 s after the start: too early for a line
        progress.step()
        progress.step()
    lines = capsys.readouterr().err.splitlines()
    assert lines == [
        "evaluating ━━━━━━━━━━╌╌╌╌╌╌╌╌╌╌ 2/4, 0:31 left",
        "evaluating ━━━━━━━━━━━━━━━╌╌╌╌╌ 3/4, 0:21 left",
    ]


def test_a_bar_is_shown_before_the_first_step(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    with ProgressBar("evaluating", 2):
        assert capsys.readouterr().err == f"\r\x1b[Kevaluating {bar(0)} 0/2"


def test_a_status_line_is_shown_while_stderr_is_redirected(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    line = StatusLine()
    with redirect_stderr(io.StringIO()) as hidden:
        line.draw("capturing the graph, 0:02")
        line.print("half of it")
    assert hidden.getvalue() == ""
    assert capsys.readouterr().err == "\r\x1b[Kcapturing the graph, 0:02\r\x1b[Khalf of it\n"


def test_a_bar_without_a_total_shows_a_count_and_the_time_spent(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    times = iter([0.0, 31.0])
    monkeypatch.setattr("chop.display.progress.time.perf_counter", lambda: next(times))
    with ProgressBar("measured:", None) as progress:
        progress.step(1500)
    assert capsys.readouterr().err == "measured: 1,500, 0:31\n"


def test_a_stage_shows_its_title_and_the_time_until_it_ends(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("chop.display.progress.SECONDS_PER_CLOCK", 0.01)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    drawn = threading.Event()

    def clock_at_three(seconds: float) -> str:
        drawn.set()
        return "0:03"

    monkeypatch.setattr("chop.display.progress.clock", clock_at_three)
    with Stage("reading model.gguf"):
        assert drawn.wait(10)
        time.sleep(0.01)
    text = capsys.readouterr().err
    assert "\r\x1b[Kreading model.gguf, 0:03" in text
    assert text.endswith("\r\x1b[K")


def test_a_short_stage_prints_nothing_without_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    with Stage("reading model.gguf"):
        pass
    assert capsys.readouterr().err == ""


def test_a_stage_ends_with_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    before = threading.active_count()
    with pytest.raises(KeyboardInterrupt), Stage("reading model.gguf"):
        raise KeyboardInterrupt
    assert threading.active_count() == before
