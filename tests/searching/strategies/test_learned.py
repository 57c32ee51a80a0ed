"""Widths that follow gradients."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from chop.formats.integer import Integer
from chop.searching.evaluation.problem import Measurable
from chop.searching.evaluation.ptq import Problem
from chop.searching.strategies.ilp import Ilp
from chop.searching.strategies.learned import Learned
from chop.searching.strategies.learned_widths import LearnedUnit, LearnedWidth
from chop.searching.strategies.sensitivity import Sensitivity
from searching.strategies.conftest import BITOPS, BOTH, WEIGHTS, Three, made, widths

SHORT = Learned(steps=150, batch_size=64, learning_rate=0.1)


@pytest.mark.parametrize(
    ("slope", "expected"),
    [
        (1.0, math.log(2) * (0.05 - 2 * 0.1 + 3 * 0.75)),  # all bits go behind the point: errors are halved
        (0.0, math.log(2) * 3 * 1.75),  # all go before it: only what is cut off moves, with the limit
        (0.5, math.log(2) * (0.5 * (0.05 - 2 * 0.1) + 0.5 * 3 * 1.75)),
    ],
)
def test_the_gradient_of_a_width(slope: float, expected: float) -> None:
    """In 4 bits, 2 of them fraction, 0.3 becomes 0.25, 0.6 becomes 0.5 and 2.5 is cut off at 1.75."""
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
def test_where_added_bits_go(fraction: Any, slope: float) -> None:
    problem = made(Three(), linear={**WEIGHTS, "weight_frac_width": [fraction]})
    unit = LearnedUnit(problem, problem.space.units[0])
    (layer,) = unit.replaced.values()
    unit.set(torch.tensor([4.0], requires_grad=True))
    learned = layer.formats["weight"]  # type: ignore[attr-defined]
    assert learned._slope == slope
    assert learned.width == 4
    assert isinstance(layer.formats["data_in_0"], Integer)  # type: ignore[attr-defined]  # its width is given


def test_widths_are_rounded_to_what_the_space_offers(three: Problem) -> None:
    unit = LearnedUnit(three, three.space.units[0])
    assert [unit.allowed((width,)) for width in (2, 3, 5, 6, 7)] == [(2,), (4,), (4,), (8,), (8,)]


@pytest.mark.slow
def test_points_are_in_the_space_and_come_down(both: Problem) -> None:
    found = SHORT.plan(both, BITOPS, 3)
    assert len(found) == len({tuple(point.items()) for point in found}) > 5
    assert widths(found[0]) == (8, 8) * 3
    costs = [both.costs(both.space.configs(point))["bitops"] for point in found]
    assert costs[-1] < 0.3 * costs[0]


@pytest.mark.slow
def test_the_same_seed_gives_the_same_points(both: Problem) -> None:
    assert SHORT.plan(both, BITOPS, 3) == SHORT.plan(both, BITOPS, 3)
    assert SHORT.plan(both, BITOPS, 3) != SHORT.plan(both, BITOPS, 4)


def test_bits_that_do_nothing_go_first() -> None:
    """Weights of the second layer are -1, 0 and 1, which two bits hold as well as eight."""
    torch.manual_seed(0)
    model = Three()
    with torch.no_grad():
        model.second.weight.copy_(torch.randint(-1, 2, (16, 8)).float())
    problem = made(model, linear=WEIGHTS)
    for point in SHORT.plan(problem, BITOPS, 0):
        if point["second/weight_width"] == 2:
            break
    assert point == {"first/weight_width": 8, "second/weight_width": 2, "third/weight_width": 8}


def test_the_model_is_left_as_it_was(both: Problem) -> None:
    model = both.evaluator.graph.model
    before = {key: value.clone() for key, value in model.state_dict().items()}
    SHORT.plan(both, BITOPS, 0)
    assert all(torch.equal(before[key], value) for key, value in model.state_dict().items())
    assert all(parameter.grad is None for parameter in model.parameters())
    assert not model.training


@pytest.mark.slow
def test_points_are_thinned(both: Problem) -> None:
    whole = SHORT.plan(both, BITOPS, 3)
    few = Learned(steps=150, batch_size=64, learning_rate=0.1, n_trials=3).plan(both, BITOPS, 3)
    assert few == [whole[0], whole[round((len(whole) - 1) / 2)], whole[-1]]


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"name": ["integer", "mxfp"]}, "learns the widths of format 'integer', and 'first' may have others"),
        ({"weight_name": "mxfp"}, "learns the widths of format 'integer', and 'first' may have others"),
        ({"weight_width": 4}, "strategy 'learned' learns widths, and the space offers none to choose from"),
        ({"weight_scale": "learned"}, "learns widths beside fixed steps; 'first' asks for"),
    ],
)
def test_other_spaces_are_refused(changes: dict[str, Any], sentence: str) -> None:
    keys = ("name", "data_in_width", "data_in_frac_width") if "weight_name" in changes else tuple(WEIGHTS)
    problem = made(Three(), linear={**{key: WEIGHTS[key] for key in keys}, **changes})
    with pytest.raises(ValueError, match=sentence):
        SHORT.plan(problem, BITOPS, 0)


def test_without_training_rows_nothing_is_learned(three: Problem) -> None:
    three.training_rows = None
    with pytest.raises(ValueError, match="strategy 'learned' needs training rows"):
        SHORT.plan(three, BITOPS, 0)


@pytest.mark.parametrize(
    ("setup", "sentence"),
    [
        ({"steps": 0}, "'steps' must be at least 1, got 0"),
        ({"batch_size": 0}, "'batch_size' must be at least 1, got 0"),
        ({"learning_rate": 0.0}, "'learning_rate' must be above 0, got 0.0"),
        ({"beta_from": 2.0, "beta_to": 1.0}, "'beta_from' must be above 0 and at most 'beta_to', got 2.0 and 1.0"),
    ],
)
def test_wrong_options_are_told(setup: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        Learned(**setup)


@pytest.mark.parametrize("strategy", [Ilp(), Learned(), Sensitivity()])
def test_a_space_that_trains_is_refused(strategy: Ilp | Learned | Sensitivity) -> None:
    other: Measurable = object.__new__(type("Other", (Measurable,), dict.fromkeys(Measurable.__abstractmethods__)))
    with pytest.raises(ValueError, match="without training; take the space 'graph/quantize/mixed_precision_ptq'"):
        strategy.plan(other, BITOPS, 0)


def test_widths_that_follow_others_are_learned_once() -> None:
    problem = made(Three(), linear={**BOTH, "data_in_width": "same as weight_width"})
    unit = LearnedUnit(problem, problem.space.units[0])
    (layer,) = unit.replaced.values()
    unit.set(torch.tensor([3.6], requires_grad=True))
    assert [layer.formats[name].width for name in ("data_in_0", "weight")] == [4, 4]  # type: ignore[attr-defined]
