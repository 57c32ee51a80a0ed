"""Greedy chains: each step is the best of all possible steps."""

from __future__ import annotations

from itertools import pairwise

import pytest

from chop.config.search import MetricTable
from chop.searching.evaluation.objectives import Objectives
from chop.searching.evaluation.ptq import PTQProblem
from chop.searching.strategies.sensitivity import SensitivityStrategy
from searching.strategies.conftest import BITOPS, WEIGHTS, Three, all_params, cost, loss, make_problem

LOWER = {8: 4, 4: 2}


@pytest.mark.parametrize("remeasure", [1, 4])
def test_a_chain_leads_step_by_step_from_the_widest_to_the_narrowest(three: PTQProblem, remeasure: int) -> None:
    found = SensitivityStrategy(remeasure=remeasure).plan(three, BITOPS, 0)
    assert found[0] == all_params()[-1]
    assert found[-1] == all_params()[0]
    assert len(found) == 7  # three layers, two steps each
    for before, after in pairwise(found):
        changed = [name for name in before if before[name] != after[name]]
        assert len(changed) == 1
        assert after[changed[0]] == LOWER[int(str(before[changed[0]]))]


def test_each_step_adds_the_least_loss_per_cost_saved(three: PTQProblem) -> None:
    """All candidates are measured before each step, and compared with measuring all steps here."""
    for before, after in pairwise(SensitivityStrategy(remeasure=1).plan(three, BITOPS, 0)):
        steps = [{**before, name: LOWER[int(str(w))]} for name, w in before.items() if w in LOWER]
        rates = [max(loss(three, step) - loss(three, before), 0.0) / (cost(before) - cost(step)) for step in steps]
        assert rates[steps.index(dict(after))] == min(rates)


@pytest.mark.slow
def test_both_widths_of_a_layer_are_lowered(both: PTQProblem) -> None:
    found = SensitivityStrategy(harm="output").plan(both, BITOPS, 0)
    assert len(found) == 13
    bitops = [both.costs(both.space.configuration(params))["bitops"] for params in found]
    assert all(after < before for before, after in pairwise(bitops))


@pytest.mark.slow
def test_long_chains_are_evenly_spaced(both: PTQProblem) -> None:
    chain = SensitivityStrategy().plan(both, BITOPS, 0)
    few = SensitivityStrategy(n_trials=4).plan(both, BITOPS, 0)
    assert few == [chain[0], chain[4], chain[8], chain[12]]


@pytest.mark.slow
def test_a_step_may_change_the_format() -> None:
    seed = {**WEIGHTS, "name": ["mxfp", "integer"], "data_in_width": "auto", "data_in_frac_width": ["auto"]}
    problem = make_problem(
        Three(), linear={key: seed[key] for key in ("name", "weight_width", "weight_frac_width")}
    )
    found = SensitivityStrategy().plan(problem, BITOPS, 0)
    bitops = [problem.costs(problem.space.configuration(params))["bitops"] for params in found]
    assert all(after < before for before, after in pairwise(bitops))
    assert bitops[-1] == min(
        problem.costs(problem.space.configuration(params))["bitops"] for params in problem.space.all_params()
    )


@pytest.mark.slow
def test_negative_scales_in_a_sum_are_supported(three: PTQProblem) -> None:
    tables = {"accuracy": MetricTable(scale=1.0), "bitops": MetricTable(scale=-1e-6)}
    summed = Objectives.read(tables, sum_scaled=True, direction="maximize")
    assert SensitivityStrategy().plan(three, summed, 0) == SensitivityStrategy().plan(three, BITOPS, 0)


def test_wrong_options_are_reported() -> None:
    with pytest.raises(ValueError, match="'remeasure' must be at least 1, got -1"):
        SensitivityStrategy(remeasure=-1)


@pytest.mark.slow
@pytest.mark.usefixtures("one_second_per_measurement")
def test_the_chain_ends_after_half_of_the_timeout(three: PTQProblem, caplog: pytest.LogCaptureFixture) -> None:
    complete = SensitivityStrategy().plan(three, BITOPS, 0)
    started = SensitivityStrategy(timeout=24.0).plan(three, BITOPS, 0)
    assert 1 < len(started) < len(complete) == 7
    assert started == complete[: len(started)]
    assert "'timeout' ended the planning" in caplog.text
