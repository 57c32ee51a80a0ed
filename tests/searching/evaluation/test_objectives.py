"""What counts as better."""

from __future__ import annotations

import itertools
import random

import pytest

from chop.config.search import Direction, MetricTable
from chop.searching.evaluation.objectives import Objective, Objectives, known_metrics


def test_directions_are_the_metrics_own_unless_given() -> None:
    found = Objectives.read(
        {"accuracy": MetricTable(), "bitops": MetricTable(2.0), "loss": MetricTable(1, "maximize")}
    )
    assert found.directions == ["maximize", "minimize", "maximize"]
    assert found.values({"accuracy": 0.5, "bitops": 10.0, "loss": 3.0}) == [0.5, 20.0, 3.0]


def test_a_sum_subtracts_what_is_to_be_small() -> None:
    tables = {"accuracy": MetricTable(1.0), "average_bitwidth": MetricTable(0.2)}
    found = Objectives.read(tables, sum_scaled=True, direction="maximize")
    assert found.directions == ["maximize"]
    assert found.values({"accuracy": 0.7, "average_bitwidth": 5.0}) == [pytest.approx(0.7 - 1.0)]
    least = Objectives.read(tables, sum_scaled=True, direction="minimize")
    assert least.values({"accuracy": 0.7, "average_bitwidth": 5.0}) == [pytest.approx(1.0 - 0.7)]


def test_a_negative_scale_in_a_sum_is_taken_as_it_is() -> None:
    tables = {"accuracy": MetricTable(1.0), "average_bitwidth": MetricTable(-0.2)}
    found = Objectives.read(tables, sum_scaled=True, direction="maximize")
    assert found.values({"accuracy": 0.7, "average_bitwidth": 5.0}) == [pytest.approx(0.7 - 1.0)]


@pytest.mark.parametrize("direction", ["maximize", None])
def test_a_cost_with_a_negative_scale_is_better_when_it_is_small(direction: Direction | None) -> None:
    tables = {"accuracy": MetricTable(1.0), "average_bitwidth": MetricTable(-0.2, direction)}
    found = Objectives.read(tables, sum_scaled=True, direction="maximize")
    narrow, wide = {"accuracy": 0.7, "average_bitwidth": 4.0}, {"accuracy": 0.7, "average_bitwidth": 8.0}
    assert found.values(narrow) > found.values(wide)
    assert found.front([wide, narrow]) == [1]
    assert found.each[1].gain(narrow) > found.each[1].gain(wide)


def test_unknown_metrics_are_named() -> None:
    with pytest.raises(ValueError, match="unknown metric 'acuracy', did you mean 'accuracy'"):
        Objectives.read({"acuracy": MetricTable()})
    with pytest.raises(ValueError, match="'scale' must be above 0, got -1"):
        Objectives.read({"accuracy": MetricTable(-1)})


def test_front_by_brute_force() -> None:
    draw = random.Random(0)
    objectives = Objectives((Objective("accuracy", "maximize"), Objective("bitops", "minimize")))
    points = [{"accuracy": draw.randrange(12) / 12, "bitops": float(draw.randrange(12))} for _ in range(80)]

    def beats(a: dict[str, float], b: dict[str, float]) -> bool:
        return a != b and a["accuracy"] >= b["accuracy"] and a["bitops"] <= b["bitops"]

    expected = {tuple(p.values()) for p in points if not any(beats(other, p) for other in points)}
    front = objectives.front(points)
    found = [tuple(points[place].values()) for place in front]
    assert set(found) == expected
    assert len(found) == len(set(found))
    assert found == sorted(found, reverse=True)  # the most accurate first
    for place, other in itertools.permutations(front, 2):
        assert not objectives.covers(points[other], points[place])


def test_every_runner_says_which_way_is_better() -> None:
    assert known_metrics() == {
        "accuracy": "maximize",
        "loss": "minimize",
        "average_bitwidth": "minimize",
        "memory_density": "maximize",
        "bitops": "minimize",
        "weight_bits": "minimize",
        "activation_bits": "minimize",
    }
