"""Allotments are the best of all, by trying all."""

from __future__ import annotations

import ctypes
import itertools
import random
from typing import Any

import pytest

from chop.config.search import MetricTable
from chop.searching.evaluation.objectives import Objectives
from chop.searching.evaluation.ptq import Problem
from chop.searching.strategies import ilp
from chop.searching.strategies.error_tables import Choice, Rated, unbeaten
from chop.searching.strategies.ilp import Ilp, allot, budgets
from chop.tools.stdout import quiet
from searching.strategies.conftest import BITOPS, WEIGHTS, Three, all_points, cost, loss, made


def row(*pairs: tuple[float, float]) -> list[Rated]:
    return unbeaten(Rated(Choice("layer", {}, {}), cost, harm) for cost, harm in pairs)


def test_choices_that_others_beat_are_left_out() -> None:
    found = row((3, 1.0), (1, 5.0), (2, 5.0), (3, 0.5), (4, 0.5), (5, 0.0))
    assert [(each.cost, each.harm) for each in found] == [(1, 5.0), (3, 0.5), (5, 0.0)]


@pytest.mark.parametrize(
    ("budget", "expected"),
    [(2, [1, 1]), (3, [1, 1]), (4, [1, 3]), (6, [3, 3]), (7, [1, 6]), (8, [1, 6]), (9, [3, 6]), (99, [6, 6])],
)
def test_an_allotment_by_hand(budget: float, expected: list[int]) -> None:
    table = [row((1, 4.0), (3, 2.0), (6, 1.0)), row((1, 9.0), (3, 4.0), (6, 0.0))]
    assert [each.cost for each in allot(table, budget)] == expected


def test_allotments_are_those_of_trying_all() -> None:
    draw = random.Random(0)
    for _ in range(25):
        table = [
            row(*[(float(draw.randint(-900, 9) * 1024), 10 ** draw.uniform(-6, 0)) for _ in range(6)])
            for _ in range(4)
        ]
        everything = list(itertools.product(*table))
        costs = sorted(sum(each.cost for each in chosen) for chosen in everything)
        budget = costs[draw.randrange(len(costs))]
        best = min(
            sum(each.harm for each in chosen)
            for chosen in everything
            if sum(each.cost for each in chosen) <= budget
        )
        found = allot(table, budget)
        assert sum(each.cost for each in found) <= budget
        assert sum(each.harm for each in found) == pytest.approx(best, rel=1e-6)


def test_what_the_solver_prints_is_not_seen(capfd: pytest.CaptureFixture[str]) -> None:
    print("before")
    with quiet():
        ctypes.CDLL(None).puts(b"from compiled code")
    print("after")
    assert capfd.readouterr().out == "before\nafter\n"


def test_budgets_fall_by_the_same_factor() -> None:
    table = [row((-90, 1.0), (-10, 0.0)), row((-9, 1.0), (-8, 0.0))]
    assert budgets(table, 100, 3) == pytest.approx([82, 9.0554, 1], rel=1e-4)
    assert budgets([row((-10, 1.0))], 100, 3) == [90]


@pytest.mark.parametrize("harm", ["loss", "output"])
def test_points_are_the_best_of_the_sum_of_measured_harms(three: Problem, harm: Any) -> None:
    """Each layer's harm is measured here by itself, and every point of the space is tried."""
    widest = all_points()[-1]
    measure = loss if harm == "loss" else _output_error
    before = measure(three, widest)
    rise = {
        (name, width): measure(three, {**widest, name: width}) - before for name in widest for width in (2, 4, 8)
    }

    def summed(point: dict[str, Any]) -> float:
        return sum(rise[each] for each in point.items())

    found = Ilp(n_trials=12, harm=harm, remeasure=100).plan(three, BITOPS, 0)
    assert 2 < len(found) <= 12
    for point in found:
        cheaper = [summed(other) for other in all_points() if cost(other) <= cost(point)]
        assert summed(dict(point)) == pytest.approx(min(cheaper), abs=1e-9)


def _output_error(problem: Problem, point: dict[str, Any]) -> float:
    rounded = problem.evaluator.outputs(problem.replaced(problem.space.configs(point)))[0].numpy()
    plain = problem.evaluator.outputs({})[0].numpy()
    return float(((rounded.astype("f8") - plain) ** 2).sum() / (plain.astype("f8") ** 2).sum())


def test_points_go_down_to_the_cheapest(three: Problem) -> None:
    found = Ilp(n_trials=10, remeasure=2).plan(three, BITOPS, 0)
    costs = [cost(point) for point in found]
    assert costs == sorted(costs, reverse=True)
    assert found[-1] == all_points()[0]


def test_several_costs_share_the_trials(three: Problem) -> None:
    objectives = Objectives.read({name: MetricTable() for name in ("loss", "bitops", "weight_bits")})
    assert 2 < len(Ilp(n_trials=8).plan(three, objectives, 0)) <= 8


def test_of_many_choices_those_that_do_badly_at_a_glance_are_not_measured(
    both: Problem, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = Ilp(n_trials=8).plan(both, BITOPS, 0)
    monkeypatch.setattr(ilp, "FEW", 4)
    quick = Ilp(n_trials=8).plan(both, BITOPS, 0)
    assert quick[-1] == whole[-1]  # the cheapest of all
    least = min(loss(both, point) for point in whole)
    assert min(loss(both, point) for point in quick) == pytest.approx(least, rel=0.1)


def test_the_density_of_memory_counts_by_the_average_of_bits(three: Problem) -> None:
    density = Objectives.read({"accuracy": MetricTable(), "memory_density": MetricTable()})
    average = Objectives.read({"accuracy": MetricTable(), "average_bitwidth": MetricTable()})
    strategy = Ilp(n_trials=6)
    assert strategy.plan(three, density, 0) == strategy.plan(three, average, 0)


def test_a_layer_that_may_stay_in_float_is_widest_so() -> None:
    model = Three()
    problem = made(model, linear={**WEIGHTS, "name": ["NA", "integer"]})
    first = Ilp(n_trials=5, harm="output").plan(problem, BITOPS, 0)[0]
    assert first == {f"{name}/name": "NA" for name in ("first", "second", "third")}


def test_what_is_wrong_is_told(three: Problem) -> None:
    with pytest.raises(ValueError, match="'remeasure' must be at least 1, got 0"):
        Ilp(remeasure=0)
    only = Objectives.read({"accuracy": MetricTable()})
    with pytest.raises(ValueError, match=r"strategy 'ilp' needs a cost among the metrics; there are .*bitops"):
        Ilp().plan(three, only, 0)
    dearer = Objectives.read({"accuracy": MetricTable(), "bitops": MetricTable(direction="maximize")})
    with pytest.raises(ValueError, match="makes models cheaper; 'bitops' is to become dearer"):
        Ilp().plan(three, dearer, 0)
    keys = ("weight_width", "data_in_width", "bias_width")
    many = {**WEIGHTS, **{key: list(range(2, 33)) for key in keys}}
    with pytest.raises(ValueError, match="'first' has 29791 configurations and strategy 'ilp' looks at each"):
        Ilp().plan(made(Three(), linear=many), BITOPS, 0)
