"""When a trial is pruned."""

from __future__ import annotations

import math

import pytest

from chop.dataset import Rows
from chop.ir import MaseGraph
from chop.searching.evaluation import default_cost_runners
from chop.searching.evaluation.costs import Costs
from chop.searching.evaluation.evaluator import Evaluator
from chop.searching.evaluation.objectives import Objective, Objectives
from chop.searching.evaluation.ptq import PTQProblem
from chop.searching.study.pruning import CompletedTrial, TrialPruner

BOTH = Objectives((Objective("accuracy", "maximize"), Objective("bitops", "minimize")))
COMPLETED = CompletedTrial({"bitops": 100.0}, {1: 0.70, 2: 0.75})
MARGIN = 2 * math.sqrt(0.5 / 800)  # 5 points


@pytest.mark.parametrize(
    ("bitops", "step", "accuracy", "continues"),
    [
        (100, 1, 0.70 - MARGIN - 0.001, False),
        (100, 1, 0.70 - MARGIN + 0.001, True),
        (99, 1, 0.10, True),  # it costs less
        (101, 2, 0.75 - MARGIN - 0.001, False),
        (101, 2, 0.70, True),
        (101, 3, 0.10, True),  # not a rung
    ],
)
def test_a_trial_that_costs_no_less_and_is_clearly_worse_is_pruned(
    bitops: float, step: int, accuracy: float, continues: bool
) -> None:
    pruner = TrialPruner([COMPLETED], BOTH, {1: 800, 2: 800})
    assert pruner({"bitops": bitops}, step, accuracy) is continues
    assert pruner.is_pruned is not continues
    assert pruner.accuracies == ({step: accuracy} if step < 3 else {})


def test_fewer_rows_widen_the_margin() -> None:
    few = TrialPruner([COMPLETED], BOTH, {1: 80})
    assert few({"bitops": 100.0}, 1, 0.60)
    assert not few({"bitops": 100.0}, 1, 0.70 - 2 * math.sqrt(0.5 / 80) - 0.001)


def test_a_trial_without_accuracy_at_the_rung_is_ignored() -> None:
    assert TrialPruner([COMPLETED], BOTH, {5: 800})({"bitops": 500.0}, 5, 0.0)


def test_rungs_are_at_the_ends_of_batches(graph: MaseGraph, rows: Rows, problem: PTQProblem) -> None:
    costs = Costs(graph.annotated_metas(), default_cost_runners())
    several = PTQProblem(problem.space, Evaluator(graph, "x", rows, num_batches=8), costs)
    assert several.rungs == {25: 25, 50: 50, 100: 100}
    assert problem.rungs == {}  # one batch
