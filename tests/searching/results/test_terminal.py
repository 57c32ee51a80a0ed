"""What a search shows in the terminal."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import pytest

from chop.display.progress import bar
from chop.runs import RunFolder
from chop.searching.evaluation.objectives import Objective, Objectives
from chop.searching.evaluation.ptq import PTQProblem
from chop.searching.results import terminal as module
from chop.searching.results.terminal import SearchProgress, show_results
from chop.searching.study.storage import open_memory
from chop.searching.study.study import Study
from chop.training.budget import HELD_BACK, TEST, VALIDATION, Choice, PairedLoss
from searching.results.example_trials import FOUR, results, trial

OBJECTIVES = Objectives((Objective("accuracy", "maximize"), Objective("bitops", "minimize")))
METRICS = [(0.5, 10.0), (0.75, 20.0), (0.4, 15.0), (0.75, 12.0)]


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    return now


def make_study(problem: PTQProblem, objectives: Objectives, num_trials: int) -> Study:
    study = Study.create(open_memory(), "s", objectives.directions)
    assert study is not None
    study.plan(list(problem.space.all_params())[:num_trials], problem.space)
    return study


def complete(study: Study, objectives: Objectives, accuracy: float, bitops: float) -> None:
    trial = study.claim()
    assert trial is not None
    metrics = {"accuracy": accuracy, "bitops": bitops}
    study.complete(trial, objectives.values(metrics), metrics)


def test_progress_shows_trials_the_best_the_rate_and_the_time_left(
    problem: PTQProblem, clock: list[float], capsys: pytest.CaptureFixture[str]
) -> None:
    study = make_study(problem, OBJECTIVES, 8)
    progress = SearchProgress(study, OBJECTIVES, 0, lambda: None)
    for accuracy, bitops in METRICS:
        clock[0] += 20  # the clock starts at the first trial: three trials in 60 seconds
        complete(study, OBJECTIVES, accuracy, bitops)
        progress.tick()
    progress.close()
    last = capsys.readouterr().err.splitlines()[-1]
    half = "━" * 10 + "╌" * 10
    # (0.75, 12) dominates (0.75, 20), and (0.5, 10) dominates (0.4, 15).
    assert last == f"trials 4/8 {half}  0.05 trials/s, 1:20 left  best accuracy 0.75, front 2"


def test_progress_shows_the_best_sum(problem: PTQProblem, capsys: pytest.CaptureFixture[str]) -> None:
    objectives = Objectives((Objective("accuracy", "maximize"), Objective("bitops", "minimize", 0.01)), "maximize")
    study = make_study(problem, objectives, 4)
    for accuracy, bitops in METRICS:
        complete(study, objectives, accuracy, bitops)
    SearchProgress(study, objectives, 0, lambda: None).close()
    assert "best 0.63" in capsys.readouterr().err  # 0.75 - 0.12


def test_without_a_terminal_few_lines_are_printed(
    problem: PTQProblem, clock: list[float], capsys: pytest.CaptureFixture[str]
) -> None:
    study = make_study(problem, OBJECTIVES, 30)
    progress = SearchProgress(study, OBJECTIVES, 0, lambda: None)
    for _ in range(30):
        clock[0] += 1
        complete(study, OBJECTIVES, 0.5, 1.0)
        progress.tick()
    progress.close()
    assert len(capsys.readouterr().err.splitlines()) == module.NUM_LOG_LINES


def test_on_a_terminal_one_line_is_redrawn(
    problem: PTQProblem, clock: list[float], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    study = make_study(problem, OBJECTIVES, 4)
    progress = SearchProgress(study, OBJECTIVES, 0, lambda: None)
    assert capsys.readouterr().err == f"\r\x1b[Ktrials 0/4 {bar(0)}"  # before the first trial ends
    for accuracy, bitops in METRICS[:2]:
        clock[0] += 1
        complete(study, OBJECTIVES, accuracy, bitops)
        progress.tick()
    text = capsys.readouterr().err
    assert text.count("\r\x1b[Ktrials") == 2
    assert "\n" not in text


def test_results_are_saved_at_the_given_interval(problem: PTQProblem, clock: list[float]) -> None:
    study = make_study(problem, OBJECTIVES, 7)
    saved = []
    progress = SearchProgress(study, OBJECTIVES, 3, lambda: saved.append(study.count("complete")))
    for _ in range(7):
        clock[0] += 1
        complete(study, OBJECTIVES, 0.5, 1.0)
        progress.tick()
    assert saved == [3, 6]


def test_the_table_shows_the_front_with_the_nearest_baselines(
    capsys: pytest.CaptureFixture[str],
) -> None:
    show_results(results(*FOUR), None, RunFolder(Path("run")))
    lines = capsys.readouterr().out.splitlines()
    assert "Pareto front: 2 of 4 trials" in lines
    assert lines[4].split() == [
        "1",
        "0.8060",
        "9.00",
        "900",
        "1.13",
        "kB",
        *["integer,", "8", "bits"],
        "0.8000",
        "1,000",
    ]
    assert lines[5].split() == [
        "2",
        "0.7900",
        "5.00",
        "500",
        "625",
        "B",
        *["integer,", "4", "bits"],
        "0.6000",
        "400",
    ]
    text = "\n".join(lines)
    assert "Pareto-optimal uniform baselines: integer, 4 bits (accuracy 0.6000)" in text
    assert "the importance of choices is not shown for 4 trials; it needs at least 20" in text
    assert "best: trial 1, accuracy 0.8060" in text
    rule = "lowest bit operations of all trials that lose at most 1 percentage point of accuracy"
    assert f"{rule}; ready for ch transform" in text


def test_the_table_shows_what_is_within_the_budget_and_folds_the_rest_away(
    capsys: pytest.CaptureFixture[str],
) -> None:
    losses = tuple(PairedLoss(name, 1000, 5, 1) for name in (VALIDATION, HELD_BACK, TEST))
    choice = Choice(FOUR[1], losses, 1.0, num_failed=2)
    show_results(results(*FOUR, is_checked=True, choice=choice), 0.5, RunFolder(Path("run")))
    text = capsys.readouterr().out
    assert [line.split()[0] for line in text.splitlines()[4:6]] == ["1", "not"]  # trial 1, and the next sentence
    assert "not shown: 1 trial of the front with a loss of more than 0.5 percentage points, in" in text
    assert "best: trial 1" in text
    for name in (VALIDATION, HELD_BACK, TEST):
        shown = next(line.split() for line in text.splitlines() if line.startswith(f"{name}  "))
        assert shown[-3:] == ["1,000", "0.40", f"{losses[0].limit:.2f}"]
    assert "2 other choices lost too much on rows held back" in text


def test_the_table_shows_choices_that_are_not_formats(capsys: pytest.CaptureFixture[str]) -> None:
    chosen: dict[str, Any] = {"[training]/learning_rate": 0.01, "[method]/method": "gptq", "linear/weight_width": 4}
    show_results(results(trial(0, 0.80, 300, **chosen)), None, RunFolder(Path("run")))
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["trial", "learning_rate", "method", "accuracy"] in [line[:4] for line in lines]
    assert ["0", "0.01", "gptq", "0.8000"] in [line[:4] for line in lines]


def test_a_search_without_complete_trials_is_reported(capsys: pytest.CaptureFixture[str]) -> None:
    show_results(results(trial(0, 0.5, 1, "failed")), None, RunFolder(Path("run")))
    assert "no trial was completed" in capsys.readouterr().out


def test_importances_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    records = [
        trial(number, 0.5 + 0.04 * (number % 8), 100 * (number % 8), a=number % 8, b=number // 8)
        for number in range(64)
    ]
    found = results(*records)
    shares = found.importances("accuracy")
    assert isinstance(shares, dict)
    assert shares["a"] > 0.9
    assert sum(shares.values()) == pytest.approx(1)
    show_results(found, None, RunFolder(Path("run")))
    lines = capsys.readouterr().out.splitlines()
    assert ["a", *[f"{shares['a']:.0%}"] * 2] in [line.split() for line in lines]


def test_the_table_has_rows_for_better_baselines_outside_the_space(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    show_results(results(*FOUR), None, RunFolder(tmp_path))
    out = capsys.readouterr().out
    row = next(line for line in out.splitlines() if line.lstrip().startswith("- "))
    assert row.split() == ["-", "0.6000", "4.00", "400", "500", "B", "integer,", "4", "bits"]
    assert "-: Pareto-optimal uniform baselines that are not in the search space" in out
    show_results(
        results(*FOUR, trial(9, 0.6, 400), baseline_labels={9: "integer, 4 bits"}), None, RunFolder(tmp_path)
    )
    assert "not in the search space" not in capsys.readouterr().out
