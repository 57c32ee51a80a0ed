"""Strategy `optuna`: which configurations are planned before any trial runs."""

from __future__ import annotations

import itertools

import pytest

from chop.searching.evaluation.objectives import Objectives
from chop.searching.evaluation.ptq import PTQProblem
from chop.searching.space.dimension import equality_key
from chop.searching.strategies.optuna import OptunaStrategy, quasi_random_params, random_params


@pytest.mark.slow
@pytest.mark.parametrize("params", [random_params, quasi_random_params])
def test_all_configurations_are_drawn_once(problem: PTQProblem, params: type) -> None:
    found = [equality_key(each) for each in params(problem.space, 0)]
    assert len(found) == len(set(found)) == problem.space.num_configurations == 36


def test_a_quasi_random_sequence_covers_each_dimension_evenly(problem: PTQProblem) -> None:
    drawn = list(itertools.islice(quasi_random_params(problem.space, 0), 18))
    for name in ("first/weight_width", "second/weight_width"):
        counts = [sum(each[name] == width for each in drawn) for width in (2, 4, 8)]
        assert min(counts) >= 4, counts


def test_brute_force_takes_evenly_spaced_configurations(problem: PTQProblem) -> None:
    strategy = OptunaStrategy(sampler="brute_force", n_trials=9)
    planned = strategy.plan(problem, Objectives.read({}), 0)
    everything = list(problem.space.all_params())
    assert list(planned) == everything[::4]


def test_only_brute_force_tries_everything_by_default() -> None:
    assert OptunaStrategy.with_defaults({"sampler": "BruteForce"})["n_trials"] == 100_000
    assert OptunaStrategy.with_defaults({"sampler": "BruteForce", "n_trials": 5})["n_trials"] == 5
    assert OptunaStrategy.with_defaults({"sampler": "tpe"}) == {"sampler": "tpe"}
