"""The front and the best trial, for trials whose order is easy to see."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from chop.searching.evaluation.objectives import Objective, Objectives
from chop.searching.results import results as module
from chop.searching.results.results import BestTrial
from chop.searching.study.study import TrialRecord
from searching.results.example_trials import FOUR, SUM, metrics, results, trial


def test_the_front_has_the_pareto_optimal_trials_the_most_accurate_first() -> None:
    assert [each.number for each in results(*FOUR).front] == [1, 2]


def test_pruned_trials_and_trials_without_finite_loss_are_not_on_the_front() -> None:
    loss = Objectives((Objective("loss", "minimize"), Objective("bitops", "minimize")))
    broken = TrialRecord(5, "complete", {}, metrics(0.9, 10, loss=float("nan")), None, 0.1)
    found = results(*FOUR, trial(4, 0.99, 1, "pruned"), broken, objectives=loss)
    assert [each.number for each in found.front] == [2]


@pytest.mark.parametrize(
    ("max_drop", "expected"), [(0.0, None), (0.3, None), (0.5, 1), (1.0, 1), (2.0, 2), (2.5, 2), (None, 1)]
)
def test_the_best_trial_is_the_cheapest_within_the_max_drop(max_drop: float | None, expected: int | None) -> None:
    best = results(*FOUR).best(max_drop).record
    assert (None if best is None else best.number) == expected


def test_without_a_max_drop_the_most_accurate_trial_is_the_fallback() -> None:
    found = results(*FOUR[2:])
    rule = "highest accuracy: all trials lose more than 1 percentage point"
    assert found.best(None) == BestTrial(FOUR[2], rule)
    assert found.best(1.0).record is None


def test_the_best_trial_of_a_sum_has_the_largest_sum() -> None:
    found = results(*FOUR, objectives=SUM)  # 0.80 - 1.0, 0.806 - 0.9, 0.79 - 0.5, 0.78 - 0.6
    assert found.best(None).record == FOUR[2]
    assert found.best(0.5).record == FOUR[1]  # --max-drop takes precedence


def test_the_baseline_of_a_trial_has_the_nearest_cost() -> None:
    found = results(*FOUR)
    assert [baseline.label for each in FOUR if (baseline := found.nearest_baseline(each.metrics))] == [
        "integer, 8 bits",
        "integer, 8 bits",
        "integer, 4 bits",
        "integer, 4 bits",
    ]


def test_a_baseline_does_not_dominate_itself() -> None:
    itself = trial(0, 0.6, 400)
    assert [each.label for each in results(*FOUR).pareto_optimal_baselines] == ["integer, 4 bits"]
    assert results(*FOUR, itself).pareto_optimal_baselines == []
    found = results(*FOUR, itself, baseline_labels={0: "integer, 4 bits"})
    assert [each.label for each in found.pareto_optimal_baselines] == ["integer, 4 bits"]


def test_unknown_importances_are_explained() -> None:
    same = results(*(trial(number, 0.5, 100, a=number % 2) for number in range(30)))
    assert same.importances("accuracy") == "the importance of choices is not shown: all trials are equally good"
    none = results(*(trial(number, number / 30, 100) for number in range(30)))
    assert none.importances("accuracy") == (
        "the importance of choices is not shown: no choice that all trials have in common varies"
    )


def test_importances_are_estimated_from_a_limited_number_of_trials(monkeypatch: pytest.MonkeyPatch) -> None:
    numbers: list[int] = []

    def counting(params: Sequence[object], values: Sequence[float]) -> dict[str, float]:
        numbers.append(len(params))
        return {}

    monkeypatch.setattr(module, "_importances", counting)
    results(*[trial(number, 0.5, number) for number in range(4001)]).importances("accuracy")
    assert 300 <= numbers[0] <= 400
