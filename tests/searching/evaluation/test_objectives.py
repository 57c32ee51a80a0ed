"""Objectives: directions, sums and the Pareto front."""

from __future__ import annotations

import itertools
import random

import pytest

from chop.config.search import Direction, MetricTable
from chop.searching.evaluation import COST_RUNNERS
from chop.searching.evaluation.objectives import (
    Objective,
    Objectives,
    better_direction,
    is_cost,
    known_metrics,
    pareto_front,
    weakly_dominates,
)


def test_the_default_direction_is_that_of_the_metric() -> None:
    found = Objectives.read(
        {"accuracy": MetricTable(), "bitops": MetricTable(2.0), "loss": MetricTable(1, "maximize")}
    )
    assert found.directions == ["maximize", "minimize", "maximize"]
    assert found.values({"accuracy": 0.5, "bitops": 10.0, "loss": 3.0}) == [0.5, 20.0, 3.0]


def test_a_sum_subtracts_metrics_of_the_other_direction() -> None:
    tables = {"accuracy": MetricTable(1.0), "average_bitwidth": MetricTable(0.2)}
    found = Objectives.read(tables, sum_scaled=True, direction="maximize")
    assert found.directions == ["maximize"]
    assert found.values({"accuracy": 0.7, "average_bitwidth": 5.0}) == [pytest.approx(0.7 - 1.0)]
    least = Objectives.read(tables, sum_scaled=True, direction="minimize")
    assert least.values({"accuracy": 0.7, "average_bitwidth": 5.0}) == [pytest.approx(1.0 - 0.7)]


def test_a_negative_scale_in_a_sum_subtracts_the_metric_once() -> None:
    tables = {"accuracy": MetricTable(1.0), "average_bitwidth": MetricTable(-0.2)}
    found = Objectives.read(tables, sum_scaled=True, direction="maximize")
    assert found.values({"accuracy": 0.7, "average_bitwidth": 5.0}) == [pytest.approx(0.7 - 1.0)]


@pytest.mark.parametrize("direction", ["maximize", None])
def test_a_cost_with_a_negative_scale_is_minimized(direction: Direction | None) -> None:
    tables = {"accuracy": MetricTable(1.0), "average_bitwidth": MetricTable(-0.2, direction)}
    found = Objectives.read(tables, sum_scaled=True, direction="maximize")
    narrow, wide = {"accuracy": 0.7, "average_bitwidth": 4.0}, {"accuracy": 0.7, "average_bitwidth": 8.0}
    assert found.values(narrow) > found.values(wide)
    assert pareto_front([wide, narrow], found.gains) == [narrow]
    assert found.items[1].gain(narrow) > found.items[1].gain(wide)


def test_unknown_metrics_and_scales_are_reported() -> None:
    with pytest.raises(ValueError, match="unknown metric 'acuracy'; did you mean 'accuracy'"):
        Objectives.read({"acuracy": MetricTable()})
    with pytest.raises(ValueError, match="'scale' must be above 0, got -1"):
        Objectives.read({"accuracy": MetricTable(-1)})


def test_the_front_equals_that_of_brute_force() -> None:
    draw = random.Random(0)
    objectives = Objectives((Objective("accuracy", "maximize"), Objective("bitops", "minimize")))
    points = [{"accuracy": draw.randrange(12) / 12, "bitops": float(draw.randrange(12))} for _ in range(80)]

    def dominates(a: dict[str, float], b: dict[str, float]) -> bool:
        return a != b and a["accuracy"] >= b["accuracy"] and a["bitops"] <= b["bitops"]

    expected = {tuple(p.values()) for p in points if not any(dominates(other, p) for other in points)}
    front = pareto_front(points, objectives.gains)
    found = [tuple(point.values()) for point in front]
    assert set(found) == expected
    assert len(found) == len(set(found))
    assert found == sorted(found, reverse=True)  # the most accurate first
    for one, other in itertools.permutations(front, 2):
        assert not weakly_dominates(objectives.gains(one), objectives.gains(other))


@pytest.mark.parametrize("name", known_metrics())
def test_every_metric_declares_which_direction_is_better(name: str) -> None:
    figure = known_metrics()[name]
    assert figure.better in ("higher", "lower")
    assert (better_direction(name) == "maximize") == (figure.better == "higher")


def test_costs_are_the_metrics_of_the_cost_runners() -> None:
    costs = {figure.name for runner in COST_RUNNERS.values() for figure in runner.metrics}
    assert {name for name in known_metrics() if is_cost(name)} == costs
    assert not is_cost("accuracy")


def test_a_stored_trial_without_a_metric_is_reported() -> None:
    with pytest.raises(ValueError, match="a stored trial has no metric 'accuracy': the study is corrupt"):
        Objective("accuracy", "maximize").gain({"loss": 1.0})
