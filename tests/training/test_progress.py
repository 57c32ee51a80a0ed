"""A bar on a terminal, and plain lines elsewhere."""

from __future__ import annotations

import io
import re

import pytest

from chop.training.terminal import TrainingProgress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def numbers() -> str:
    return "loss 0.5000  accuracy 0.7500  lr 1.00e-03"


def test_the_bar_on_a_terminal_has_all_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    monkeypatch.setattr("chop.training.terminal.SECONDS_PER_REDRAW", -1.0)
    monkeypatch.setenv("COLUMNS", "150")
    shown = TrainingProgress(num_epochs=3, num_batches=4, done=0)
    for _ in range(6):
        shown.step(32, numbers)
    last = terminal.getvalue().split("\r\x1b[K")[-1]
    assert last.startswith(f"epoch 2/3 {'━' * 10}{'╌' * 10} loss 0.5000  accuracy 0.7500  lr 1.00e-03  ")
    assert re.search(r"\d+k? samples/s, \d+:\d\d left$", last)
    shown.epoch("epoch 2 is done")
    shown.close()
    assert "\r\x1b[Kepoch 2 is done" in terminal.getvalue()


def test_the_bar_is_cut_to_the_width_of_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    monkeypatch.setattr("chop.training.terminal.SECONDS_PER_REDRAW", -1.0)
    monkeypatch.setenv("COLUMNS", "40")
    TrainingProgress(1, 1, 0).step(1, numbers)
    assert len(terminal.getvalue().split("\r\x1b[K")[-1]) == 39


def test_without_a_terminal_there_is_one_line_per_epoch(capsys: pytest.CaptureFixture[str]) -> None:
    shown = TrainingProgress(num_epochs=1, num_batches=1, done=0)
    shown.step(32, lambda: pytest.fail("nothing is drawn"))
    shown.epoch("epoch 1 is done")
    shown.close()
    assert re.fullmatch(r"epoch 1 is done  \d+k? samples/s, 0:00 left\n", capsys.readouterr().err)


def test_other_processes_are_silent(capsys: pytest.CaptureFixture[str]) -> None:
    shown = TrainingProgress(1, 1, 0, shown=False)
    shown.step(1, numbers)
    shown.epoch("epoch 1 is done")
    assert capsys.readouterr().err == ""
