"""Chains of points, each step the best of those that can be taken."""

from __future__ import annotations

from itertools import pairwise

import pytest

from chop.config.search import MetricTable
from chop.searching.evaluation.objectives import Objectives
from chop.searching.evaluation.ptq import Problem
from chop.searching.strategies.sensitivity import Sensitivity
from searching.strategies.conftest import BITOPS, WEIGHTS, Three, all_points, cost, loss, made

LOWER = {8: 4, 4: 2}


@pytest.mark.parametrize("remeasure", [1, 4])
def test_a_chain_goes_step_by_step_from_the_widest_to_the_narrowest(three: Problem, remeasure: int) -> None:
    found = Sensitivity(remeasure=remeasure).plan(three, BITOPS, 0)
    assert found[0] == all_points()[-1]
    assert found[-1] == all_points()[0]
    assert len(found) == 7  # three layers, two steps each
    for before, after in pairwise(found):
        changed = [name for name in before if before[name] != after[name]]
        assert len(changed) == 1
        assert after[changed[0]] == LOWER[int(str(before[changed[0]]))]


def test_each_step_raises_the_loss_least_for_what_it_saves(three: Problem) -> None:
    """With everything measured before each step, against measuring all steps here."""
    for before, after in pairwise(Sensitivity(remeasure=1).plan(three, BITOPS, 0)):
        steps = [{**before, name: LOWER[int(str(w))]} for name, w in before.items() if w in LOWER]
        rates = [max(loss(three, step) - loss(three, before), 0.0) / (cost(before) - cost(step)) for step in steps]
        assert rates[steps.index(dict(after))] == min(rates)


def test_both_widths_of_a_layer_are_lowered(both: Problem) -> None:
    found = Sensitivity(harm="output").plan(both, BITOPS, 0)
    assert len(found) == 13
    bitops = [both.costs(both.space.configs(point))["bitops"] for point in found]
    assert all(after < before for before, after in pairwise(bitops))


def test_long_chains_are_thinned(both: Problem) -> None:
    whole = Sensitivity().plan(both, BITOPS, 0)
    few = Sensitivity(n_trials=4).plan(both, BITOPS, 0)
    assert few == [whole[0], whole[4], whole[8], whole[12]]


def test_a_step_may_change_the_format() -> None:
    seed = {**WEIGHTS, "name": ["mxfp", "integer"], "data_in_width": "auto", "data_in_frac_width": ["auto"]}
    problem = made(Three(), linear={key: seed[key] for key in ("name", "weight_width", "weight_frac_width")})
    found = Sensitivity().plan(problem, BITOPS, 0)
    bitops = [problem.costs(problem.space.configs(point))["bitops"] for point in found]
    assert all(after < before for before, after in pairwise(bitops))
    assert bitops[-1] == min(
        problem.costs(problem.space.configs(point))["bitops"] for point in problem.space.points()
    )


def test_a_sum_of_metrics_with_negative_scales_is_understood(three: Problem) -> None:
    tables = {"accuracy": MetricTable(scale=1.0), "bitops": MetricTable(scale=-1e-6)}
    summed = Objectives.read(tables, sum_scaled=True, direction="maximize")
    assert Sensitivity().plan(three, summed, 0) == Sensitivity().plan(three, BITOPS, 0)


def test_what_is_wrong_is_told() -> None:
    with pytest.raises(ValueError, match="'remeasure' must be at least 1, got -1"):
        Sensitivity(remeasure=-1)
