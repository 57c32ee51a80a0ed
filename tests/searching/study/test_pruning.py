"""When a trial is given up."""

from __future__ import annotations

import math

import pytest

from chop.dataset import Rows
from chop.ir import MaseGraph
from chop.searching.evaluation import COST_RUNNERS
from chop.searching.evaluation.costs import Costs
from chop.searching.evaluation.evaluator import Evaluator
from chop.searching.evaluation.objectives import Objective, Objectives
from chop.searching.evaluation.ptq import Problem
from chop.searching.study.pruning import Rival, TrialJudge

BOTH = Objectives((Objective("accuracy", "maximize"), Objective("bitops", "minimize")))
RIVAL = Rival({"bitops": 100.0}, {1: 0.70, 2: 0.75})
MARGIN = 2 * math.sqrt(0.5 / 800)  # 5 points


@pytest.mark.parametrize(
    ("bitops", "step", "accuracy", "goes_on"),
    [
        (100, 1, 0.70 - MARGIN - 0.001, False),
        (100, 1, 0.70 - MARGIN + 0.001, True),
        (99, 1, 0.10, True),  # it costs less: accuracy is not all
        (101, 2, 0.75 - MARGIN - 0.001, False),
        (101, 2, 0.70, True),
        (101, 3, 0.10, True),  # no rung
    ],
)
def test_who_costs_as_much_and_is_clearly_worse_at_the_same_step_is_given_up(
    bitops: float, step: int, accuracy: float, goes_on: bool
) -> None:
    judge = TrialJudge([RIVAL], BOTH, {1: 800, 2: 800})
    assert judge({"bitops": bitops}, step, accuracy) is goes_on
    assert judge.gave_up is not goes_on
    assert judge.accuracies == ({step: accuracy} if step < 3 else {})


def test_fewer_rows_make_a_wider_margin() -> None:
    few = TrialJudge([RIVAL], BOTH, {1: 80})
    assert few({"bitops": 100.0}, 1, 0.60)
    assert not few({"bitops": 100.0}, 1, 0.70 - 2 * math.sqrt(0.5 / 80) - 0.001)


def test_a_rival_that_was_not_seen_at_a_step_says_nothing() -> None:
    assert TrialJudge([RIVAL], BOTH, {5: 800})({"bitops": 500.0}, 5, 0.0)


def test_the_rungs_of_rows_are_ends_of_batches(graph: MaseGraph, rows: Rows, problem: Problem) -> None:
    costs = Costs(graph.annotated_metas(), [runner() for runner in COST_RUNNERS.values()], num_rows=10)
    several = Problem(problem.space, Evaluator(graph, "x", rows, num_batches=8), costs)
    assert several.rungs == {25: 25, 50: 50, 100: 100}
    assert problem.rungs == {}  # all rows at once
