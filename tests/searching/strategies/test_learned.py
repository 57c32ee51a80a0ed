"""Widths learned by gradient descent."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from chop.formats.integer import Integer
from chop.searching.evaluation.problem import Problem
from chop.searching.evaluation.ptq import PTQProblem
from chop.searching.strategies.ilp import Ilp
from chop.searching.strategies.learned import Learned
from chop.searching.strategies.learned_widths import LearnedUnit, LearnedWidth
from chop.searching.strategies.sensitivity import SensitivityStrategy
from searching.strategies.conftest import BITOPS, BOTH, WEIGHTS, Three, make_problem, widths

SHORT = Learned(steps=150, batch_size=64, learning_rate=0.1)


@pytest.mark.parametrize(
    ("slope", "expected"),
    [
        (
            1.0,
            math.log(2) * (0.05 - 2 * 0.1 + 3 * 0.75),
        ),  # all additional bits are fraction bits: errors are halved
        (0.0, math.log(2) * 3 * 1.75),  # all are integer bits: only saturated values change
        (0.5, math.log(2) * (0.5 * (0.05 - 2 * 0.1) + 0.5 * 3 * 1.75)),
    ],
)
def test_the_gradient_of_a_width_equals_that_computed_by_hand(slope: float, expected: float) -> None:
    """In 4 bits, 2 of them fraction, 0.3 becomes 0.25, 0.6 becomes 0.5 and 2.5 saturates at 1.75."""
    x = torch.tensor([0.3, 0.6, 2.5], requires_grad=True)
    width = torch.tensor(4.0, requires_grad=True)
    learned = LearnedWidth()
    learned.set(width, Integer(4, 2), slope)
    y = learned(x)
    assert y.tolist() == [0.25, 0.5, 1.75]
    (y * torch.tensor([1.0, -2.0, 3.0])).sum().backward()
    assert width.grad is not None
    assert width.grad.item() == pytest.approx(expected, rel=1e-5)
    assert x.grad is not None
    assert x.grad.tolist() == [1.0, -2.0, 3.0]


@pytest.mark.parametrize(("fraction", "slope"), [("auto", 1.0), ("NA", 0.5), (2, 0.0)])
def test_the_slope_is_the_share_of_fraction_bits(fraction: Any, slope: float) -> None:
    problem = make_problem(Three(), linear={**WEIGHTS, "weight_frac_width": [fraction]})
    unit = LearnedUnit(problem, problem.space.units[0])
    (layer,) = unit.replacements.values()
    unit.set_widths(torch.tensor([4.0], requires_grad=True))
    learned = layer.formats["weight"]  # type: ignore[attr-defined]
    assert learned._slope == slope
    assert learned.width == 4
    assert isinstance(layer.formats["data_in_0"], Integer)  # type: ignore[attr-defined]  # its width is fixed


def test_widths_are_rounded_to_those_that_the_space_offers(three: PTQProblem) -> None:
    unit = LearnedUnit(three, three.space.units[0])
    assert [unit.nearest_offered((width,)) for width in (2, 3, 5, 6, 7)] == [(2,), (4,), (4,), (8,), (8,)]


@pytest.mark.slow
def test_trials_are_in_the_space_and_become_cheaper(both: PTQProblem) -> None:
    found = SHORT.plan(both, BITOPS, 3)
    assert len(found) == len({tuple(params.items()) for params in found}) > 5
    assert widths(found[0]) == (8, 8) * 3
    costs = [both.costs(both.space.configuration(params))["bitops"] for params in found]
    assert costs[-1] < 0.3 * costs[0]


@pytest.mark.slow
def test_the_same_seed_gives_the_same_trials(both: PTQProblem) -> None:
    assert SHORT.plan(both, BITOPS, 3) == SHORT.plan(both, BITOPS, 3)
    assert SHORT.plan(both, BITOPS, 3) != SHORT.plan(both, BITOPS, 4)


@pytest.mark.slow
def test_useless_bits_are_removed_first() -> None:
    """The weights of the second layer are -1, 0 and 1, which two bits represent as well as eight."""
    torch.manual_seed(0)
    model = Three()
    with torch.no_grad():
        model.second.weight.copy_(torch.randint(-1, 2, (16, 8)).float())
    problem = make_problem(model, linear=WEIGHTS)
    for params in SHORT.plan(problem, BITOPS, 0):
        if params["second/weight_width"] == 2:
            break
    assert params == {"first/weight_width": 8, "second/weight_width": 2, "third/weight_width": 8}


@pytest.mark.slow
def test_learning_does_not_change_the_model(both: PTQProblem) -> None:
    model = both.evaluator.graph.model
    before = {key: value.clone() for key, value in model.state_dict().items()}
    SHORT.plan(both, BITOPS, 0)
    assert all(torch.equal(before[key], value) for key, value in model.state_dict().items())
    assert all(parameter.grad is None for parameter in model.parameters())
    assert not model.training


@pytest.mark.slow
def test_trials_are_evenly_spaced(both: PTQProblem) -> None:
    complete = SHORT.plan(both, BITOPS, 3)
    few = Learned(steps=150, batch_size=64, learning_rate=0.1, n_trials=3).plan(both, BITOPS, 3)
    assert few == [complete[0], complete[round((len(complete) - 1) / 2)], complete[-1]]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"name": ["integer", "mxfp"]}, "learns the widths of format 'integer', but 'first' may have others"),
        ({"weight_name": "mxfp"}, "learns the widths of format 'integer', but 'first' may have others"),
        ({"weight_width": 4}, "strategy 'learned' learns widths, but the space offers no choice of widths"),
        ({"weight_scale": "learned"}, "learns widths with fixed scales, but 'first' has"),
    ],
)
def test_unsupported_spaces_are_refused(changes: dict[str, Any], message: str) -> None:
    keys = ("name", "data_in_width", "data_in_frac_width") if "weight_name" in changes else tuple(WEIGHTS)
    problem = make_problem(Three(), linear={**{key: WEIGHTS[key] for key in keys}, **changes})
    with pytest.raises(ValueError, match=message):
        SHORT.plan(problem, BITOPS, 0)


def test_learning_needs_training_rows(three: PTQProblem) -> None:
    three.training_rows = None
    with pytest.raises(ValueError, match="strategy 'learned' needs training rows"):
        SHORT.plan(three, BITOPS, 0)


@pytest.mark.parametrize(
    ("setup", "message"),
    [
        ({"steps": 0}, "'steps' must be at least 1, got 0"),
        ({"batch_size": 0}, "'batch_size' must be at least 1, got 0"),
        ({"learning_rate": 0.0}, "'learning_rate' must be above 0, got 0.0"),
        ({"decay_to": 0.0}, "'decay_to' must be above 0 and at most 1, got 0.0"),
        ({"beta_from": 2.0, "beta_to": 1.0}, "'beta_from' must be above 0 and at most 'beta_to', got 2.0 and 1.0"),
    ],
)
def test_wrong_options_are_reported(setup: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Learned(**setup)


@pytest.mark.parametrize("strategy", [Ilp(), Learned(), SensitivityStrategy()])
def test_a_problem_with_training_is_refused(strategy: Ilp | Learned | SensitivityStrategy) -> None:
    other: Problem = object.__new__(type("Other", (Problem,), dict.fromkeys(Problem.__abstractmethods__)))
    with pytest.raises(ValueError, match="without training; use the space 'graph/quantize/mixed_precision_ptq'"):
        strategy.plan(other, BITOPS, 0)


def test_widths_that_copy_others_are_learned_once() -> None:
    problem = make_problem(Three(), linear={**BOTH, "data_in_width": "same as weight_width"})
    unit = LearnedUnit(problem, problem.space.units[0])
    (layer,) = unit.replacements.values()
    unit.set_widths(torch.tensor([3.6], requires_grad=True))
    assert [layer.formats[name].width for name in ("data_in_0", "weight")] == [4, 4]  # type: ignore[attr-defined]
