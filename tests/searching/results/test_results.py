"""The front, the best and what is told of them, on trials whose order can be seen by eye."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from chop.runs import RunFolder
from chop.searching.evaluation.objectives import Objective, Objectives
from chop.searching.results.results import Baseline, Results
from chop.searching.results.terminal import show_results
from chop.searching.study.study import Record, State

BOTH = Objectives((Objective("accuracy", "maximize"), Objective("bitops", "minimize")))
SUM = Objectives(
    (Objective("accuracy", "maximize"), Objective("average_bitwidth", "minimize", 0.1)), sum_direction="maximize"
)


def metrics(accuracy: float, bitops: float, loss: float = 1.0) -> dict[str, float]:
    return {
        "accuracy": accuracy,
        "loss": loss,
        "bitops": bitops,
        "average_bitwidth": bitops / 100,
        "weight_bits": 10 * bitops,
    }


def trial(number: int, accuracy: float, bitops: float, state: State = "complete", **params: Any) -> Record:
    return Record(number, state, params, metrics(accuracy, bitops), None, 0.1)


def results(*records: Record, objectives: Objectives = BOTH, **other: Any) -> Results:
    uniform = [
        Baseline("integer, 8 bits", metrics(0.80, 1000), {}),
        Baseline("integer, 4 bits", metrics(0.6, 400), {}),
    ]
    return Results(objectives, metrics(0.81, 9000), uniform, records, **other)


FOUR = (trial(0, 0.80, 1000), trial(1, 0.806, 900), trial(2, 0.79, 500), trial(3, 0.78, 600))


def test_the_front_has_what_no_other_dominates_the_most_accurate_first() -> None:
    assert [each.number for each in results(*FOUR).front] == [1, 2]


def test_trials_that_were_given_up_or_have_no_finite_loss_are_not_on_the_front() -> None:
    loss = Objectives((Objective("loss", "minimize"), Objective("bitops", "minimize")))
    broken = Record(5, "complete", {}, metrics(0.9, 10, loss=float("nan")), None, 0.1)
    found = results(*FOUR, trial(4, 0.99, 1, "pruned"), broken, objectives=loss)
    assert [each.number for each in found.front] == [2]


@pytest.mark.parametrize(
    ("max_drop", "expected"), [(0.0, None), (0.3, None), (0.5, 1), (1.0, 1), (2.0, 2), (2.5, 2), (None, 1)]
)
def test_the_best_is_the_cheapest_that_loses_no_more(max_drop: float | None, expected: int | None) -> None:
    best = results(*FOUR).best(max_drop)
    assert (None if best is None else best.number) == expected


def test_without_a_drop_the_most_accurate_is_the_best_of_bad_ones() -> None:
    found = results(*FOUR[2:])
    assert found.best(None) == FOUR[2]
    assert found.rule(None) == "the most accurate: all lose more than 1 point"
    assert found.best(1.0) is None


def test_the_best_of_a_sum_has_the_largest_sum() -> None:
    found = results(*FOUR, objectives=SUM)  # 0.80 - 1.0, 0.806 - 0.9, 0.79 - 0.5, 0.78 - 0.6
    assert found.best(None) == FOUR[2]
    assert found.best(0.5) == FOUR[1]  # who asks for a drop gets one


def test_the_uniform_choice_beside_a_trial_has_the_nearest_cost() -> None:
    found = results(*FOUR)
    assert [beside.label for each in FOUR if (beside := found.beside(each.metrics))] == [
        "integer, 8 bits",
        "integer, 8 bits",
        "integer, 4 bits",
        "integer, 4 bits",
    ]


def test_a_uniform_choice_does_not_beat_itself() -> None:
    itself = trial(0, 0.6, 400)
    assert [each.label for each in results(*FOUR).unbeaten] == ["integer, 4 bits"]
    assert results(*FOUR, itself).unbeaten == []
    found = results(*FOUR, itself, uniform={0: "integer, 4 bits"})
    assert [each.label for each in found.unbeaten] == ["integer, 4 bits"]


def test_the_table_shows_each_trial_of_the_front_with_the_uniform_choice_beside_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    show_results(results(*FOUR), 0.5, RunFolder(Path("run")))
    lines = capsys.readouterr().out.splitlines()
    assert "front: 2 of 4 trials, which no other beats" in lines
    assert lines[4].split() == [
        "1",
        "0.8060",
        "9.00",
        "900",
        "9,000",
        *["integer,", "8", "bits"],
        "0.8000",
        "1,000",
    ]
    assert lines[5].split() == ["2", "0.7900", "5.00", "500", "5,000", *["integer,", "4", "bits"], "0.6000", "400"]
    text = "\n".join(lines)
    assert "uniform choices that no other trial equals or beats: integer, 4 bits (accuracy 0.6000)" in text
    assert "4 trials are too few to tell which choices matter; 20 are needed" in text
    assert "best: trial 1, accuracy 0.8060" in text
    assert "the least bitops that loses at most 0.5 points of accuracy; ready for ch transform" in text


def test_a_search_without_a_complete_trial_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    show_results(results(trial(0, 0.5, 1, "failed")), None, RunFolder(Path("run")))
    assert "no trial was measured to the end" in capsys.readouterr().out


def test_choices_that_matter_are_told(capsys: pytest.CaptureFixture[str]) -> None:
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


def test_why_no_choice_matters_is_told() -> None:
    same = results(*(trial(number, 0.5, 100, a=number % 2) for number in range(30)))
    assert same.importances("accuracy") == "all trials do equally well: no choice matters"
    none = results(*(trial(number, number / 30, 100) for number in range(30)))
    assert none.importances("accuracy") == "no choice was made in different ways by all trials"
