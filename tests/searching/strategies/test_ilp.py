"""Assignments are optimal, compared with trying all of them."""

from __future__ import annotations

import itertools
import random
from typing import Any

import pytest

from chop.config.search import MetricTable
from chop.searching.evaluation.objectives import Objectives
from chop.searching.evaluation.ptq import PTQProblem
from chop.searching.strategies import ilp
from chop.searching.strategies.ilp import Ilp, assign, budgets
from chop.searching.strategies.measuring import Candidate, RatedCandidate, pareto_optimal
from searching.strategies.conftest import BITOPS, WEIGHTS, Three, all_params, cost, loss, make_problem, widths


def row(*pairs: tuple[float, float]) -> list[RatedCandidate]:
    return pareto_optimal(RatedCandidate(Candidate("layer", {}, {}), cost, error) for cost, error in pairs)


def test_dominated_candidates_are_left_out() -> None:
    found = row((3, 1.0), (1, 5.0), (2, 5.0), (3, 0.5), (4, 0.5), (5, 0.0))
    assert [(each.cost, each.error) for each in found] == [(1, 5.0), (3, 0.5), (5, 0.0)]


@pytest.mark.parametrize(
    ("budget", "expected"),
    [(2, [1, 1]), (3, [1, 1]), (4, [1, 3]), (6, [3, 3]), (7, [1, 6]), (8, [1, 6]), (9, [3, 6]), (99, [6, 6])],
)
def test_an_assignment_equals_that_found_by_hand(budget: float, expected: list[int]) -> None:
    table = [row((1, 4.0), (3, 2.0), (6, 1.0)), row((1, 9.0), (3, 4.0), (6, 0.0))]
    assert [each.cost for each in assign(table, budget)] == expected


@pytest.mark.slow
def test_assignments_equal_those_of_brute_force() -> None:
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
            sum(each.error for each in chosen)
            for chosen in everything
            if sum(each.cost for each in chosen) <= budget
        )
        found = assign(table, budget)
        assert sum(each.cost for each in found) <= budget
        assert sum(each.error for each in found) == pytest.approx(best, rel=1e-6)


def test_budgets_decrease_by_equal_factors() -> None:
    table = [row((-90, 1.0), (-10, 0.0)), row((-9, 1.0), (-8, 0.0))]
    assert budgets(table, 100, 3) == pytest.approx([82, 9.0554, 1], rel=1e-4)
    assert budgets([row((-10, 1.0))], 100, 3) == [90]


@pytest.mark.slow
@pytest.mark.parametrize("error_kind", ["loss", "output"])
def test_trials_have_the_smallest_sum_of_measured_errors(three: PTQProblem, error_kind: Any) -> None:
    """The error of each layer is measured here, and every configuration of the space is tried."""
    widest = all_params()[-1]
    measure = loss if error_kind == "loss" else _output_error
    before = measure(three, widest)
    rise = {
        (name, width): measure(three, {**widest, name: width}) - before for name in widest for width in (2, 4, 8)
    }

    def summed(params: dict[str, Any]) -> float:
        return sum(rise[each] for each in params.items())

    found = Ilp(n_trials=12, harm=error_kind, remeasure=100).plan(three, BITOPS, 0)
    assert 2 < len(found) <= 12
    for params in found:
        cheaper = [summed(other) for other in all_params() if cost(other) <= cost(params)]
        assert summed(dict(params)) == pytest.approx(min(cheaper), abs=1e-9)


def _output_error(problem: PTQProblem, params: dict[str, Any]) -> float:
    rounded = problem.evaluator.outputs(problem.replacements(problem.space.configuration(params)))[0].numpy()
    plain = problem.evaluator.outputs({})[0].numpy()
    return float(((rounded.astype("f8") - plain) ** 2).sum() / (plain.astype("f8") ** 2).sum())


@pytest.mark.slow
def test_trials_become_cheaper_down_to_the_cheapest(three: PTQProblem) -> None:
    found = Ilp(n_trials=10, remeasure=2).plan(three, BITOPS, 0)
    costs = [cost(params) for params in found]
    assert costs == sorted(costs, reverse=True)
    assert found[-1] == all_params()[0]


@pytest.mark.slow
def test_several_costs_share_the_trials(three: PTQProblem) -> None:
    objectives = Objectives.read({name: MetricTable() for name in ("loss", "bitops", "weight_bits")})
    assert 2 < len(Ilp(n_trials=8).plan(three, objectives, 0)) <= 8


@pytest.mark.slow
def test_screening_keeps_the_best_candidates(both: PTQProblem, monkeypatch: pytest.MonkeyPatch) -> None:
    complete = Ilp(n_trials=8).plan(both, BITOPS, 0)
    monkeypatch.setattr(ilp, "MAX_UNSCREENED", 4)
    screened = Ilp(n_trials=8).plan(both, BITOPS, 0)
    assert screened[-1] == complete[-1]  # the cheapest of all
    least = min(loss(both, params) for params in complete)
    assert min(loss(both, params) for params in screened) == pytest.approx(least, rel=0.1)


@pytest.mark.slow
def test_memory_density_is_replaced_by_the_average_bit_width(three: PTQProblem) -> None:
    density = Objectives.read({"accuracy": MetricTable(), "memory_density": MetricTable()})
    average = Objectives.read({"accuracy": MetricTable(), "average_bitwidth": MetricTable()})
    strategy = Ilp(n_trials=6)
    assert strategy.plan(three, density, 0) == strategy.plan(three, average, 0)


@pytest.mark.slow
def test_an_unquantised_layer_is_the_most_expensive_candidate() -> None:
    model = Three()
    problem = make_problem(model, linear={**WEIGHTS, "name": ["NA", "integer"]})
    first = Ilp(n_trials=5, harm="output").plan(problem, BITOPS, 0)[0]
    assert first == {f"{name}/name": "NA" for name in ("first", "second", "third")}


@pytest.mark.slow
def test_wrong_options_are_reported(three: PTQProblem) -> None:
    with pytest.raises(ValueError, match="'remeasure' must be at least 1, got 0"):
        Ilp(remeasure=0)
    only = Objectives.read({"accuracy": MetricTable()})
    with pytest.raises(ValueError, match=r"strategy 'ilp' needs a cost among the metrics; known: .*bitops"):
        Ilp().plan(three, only, 0)
    increased = Objectives.read({"accuracy": MetricTable(), "bitops": MetricTable(direction="maximize")})
    with pytest.raises(ValueError, match="reduces costs, but objective 'bitops' increases them"):
        Ilp().plan(three, increased, 0)
    keys = ("weight_width", "data_in_width", "bias_width")
    many = {**WEIGHTS, **{key: list(range(2, 33)) for key in keys}}
    with pytest.raises(ValueError, match="'first' has 29791 configs, and strategy 'ilp' measures each"):
        Ilp().plan(make_problem(Three(), linear=many), BITOPS, 0)


@pytest.mark.slow
@pytest.mark.usefixtures("one_second_per_measurement")
def test_after_half_of_the_timeout_candidates_are_not_measured_again(
    three: PTQProblem, caplog: pytest.LogCaptureFixture
) -> None:
    measured_once = Ilp(n_trials=6, remeasure=1000).plan(three, BITOPS, 0)  # 3 layers, 1 + 3 measurements each
    assert Ilp(n_trials=6, remeasure=1, timeout=28.0).plan(three, BITOPS, 0) == measured_once
    assert "'timeout' ended the planning" in caplog.text
    assert [widths(each) for each in Ilp(n_trials=6, timeout=1.0).plan(three, BITOPS, 0)] == [(8, 8, 8)]
