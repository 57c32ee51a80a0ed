"""What a user sees while a search runs."""

from __future__ import annotations

import sys
import time

import pytest

from chop.searching.evaluation.objectives import Objective, Objectives
from chop.searching.evaluation.ptq import Problem
from chop.searching.results import progress as module
from chop.searching.results.progress import SearchProgress
from chop.searching.study.storage import open_memory
from chop.searching.study.study import Study

OBJECTIVES = Objectives((Objective("accuracy", "maximize"), Objective("bitops", "minimize")))
METRICS = [(0.5, 10.0), (0.75, 20.0), (0.4, 15.0), (0.75, 12.0)]


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    return now


def make_study(problem: Problem, objectives: Objectives, num_trials: int) -> Study:
    study = Study.create(open_memory(), "s", objectives.directions)
    assert study is not None
    study.plan(list(problem.space.points())[:num_trials], problem.space)
    return study


def complete(study: Study, objectives: Objectives, accuracy: float, bitops: float) -> None:
    trial = study.claim()
    assert trial is not None
    metrics = {"accuracy": accuracy, "bitops": bitops}
    study.complete(trial, objectives.values(metrics), metrics)


def test_trials_best_rate_and_time_left(
    problem: Problem, clock: list[float], capsys: pytest.CaptureFixture[str]
) -> None:
    study = make_study(problem, OBJECTIVES, 8)
    progress = SearchProgress(study, OBJECTIVES, 0, lambda: None)
    for accuracy, bitops in METRICS:
        clock[0] += 20  # the first is where the clock starts: three trials in 60 seconds
        complete(study, OBJECTIVES, accuracy, bitops)
        progress.tick()
    progress.close()
    last = capsys.readouterr().err.splitlines()[-1]
    bar = "━" * 10 + "╌" * 10
    # (0.75, 12) beats (0.75, 20); (0.4, 15) is beaten by (0.5, 10).
    assert last == f"trials 4/8 {bar}  best accuracy 0.75, 2 on the front  0.05 trials/s, 1:20 left"


def test_of_a_sum_the_best_is_shown(problem: Problem, capsys: pytest.CaptureFixture[str]) -> None:
    objectives = Objectives((Objective("accuracy", "maximize"), Objective("bitops", "minimize", 0.01)), "maximize")
    study = make_study(problem, objectives, 4)
    for accuracy, bitops in METRICS:
        complete(study, objectives, accuracy, bitops)
    SearchProgress(study, objectives, 0, lambda: None).close()
    assert "best 0.63" in capsys.readouterr().err  # 0.75 - 0.12


def test_a_log_gets_few_lines(problem: Problem, clock: list[float], capsys: pytest.CaptureFixture[str]) -> None:
    study = make_study(problem, OBJECTIVES, 30)
    progress = SearchProgress(study, OBJECTIVES, 0, lambda: None)
    for _ in range(30):
        clock[0] += 1
        complete(study, OBJECTIVES, 0.5, 1.0)
        progress.tick()
    progress.close()
    assert len(capsys.readouterr().err.splitlines()) == module.LINES


def test_a_terminal_gets_a_line_that_is_drawn_again(
    problem: Problem, clock: list[float], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    study = make_study(problem, OBJECTIVES, 4)
    progress = SearchProgress(study, OBJECTIVES, 0, lambda: None)
    for accuracy, bitops in METRICS[:2]:
        clock[0] += 1
        complete(study, OBJECTIVES, accuracy, bitops)
        progress.tick()
    text = capsys.readouterr().err
    assert text.count("\r\x1b[Ktrials") == 2
    assert "\n" not in text


def test_results_are_saved_every_so_many_trials(problem: Problem, clock: list[float]) -> None:
    study = make_study(problem, OBJECTIVES, 7)
    saved = []
    progress = SearchProgress(study, OBJECTIVES, 3, lambda: saved.append(study.count("complete")))
    for _ in range(7):
        clock[0] += 1
        complete(study, OBJECTIVES, 0.5, 1.0)
        progress.tick()
    assert saved == [3, 6]
