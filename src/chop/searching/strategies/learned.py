"""Strategy `learned`: bit widths learned by gradient descent, together with the weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from chop.config import SearchConfig, WidthTrainingOptions
from chop.dataset import Rows
from chop.runs import Experiment
from chop.searching.evaluation.cost_runners import CostRunner
from chop.searching.evaluation.objectives import Objectives
from chop.searching.evaluation.problem import Problem
from chop.searching.space import Params
from chop.searching.strategies.base import Strategy, register_strategy
from chop.searching.strategies.learned_front import LEARNED, STEP, LearnedFrontProblem
from chop.searching.strategies.learned_layers import CostTerm
from chop.searching.strategies.learned_training import steps_of_trials


@register_strategy("learned")
@dataclass(frozen=True)
class Learned(WidthTrainingOptions, Strategy):
    """Widths of integer formats that follow the gradient of loss + beta x cost on training rows, as in HGQ.

    Weights are trained together with a width per channel or element, which becomes 0 where a weight is pruned. One
    run traces a front: beta rises by the same factor at every step. The space says where to start; the graphs after
    evenly spaced steps are trials, whose weights are trained further with these widths.
    """

    def own_problem(
        self,
        config: SearchConfig,
        experiment: Experiment,
        rows: Rows,
        runners: Sequence[CostRunner],
        objectives: Objectives,
    ) -> Problem:
        cost: CostTerm = "lut" if any(each.name == "lut" for each in objectives.items) else "ebops"
        return LearnedFrontProblem(config, experiment, rows, runners, self, cost)

    def plan(self, problem: Problem, objectives: Objectives, seed: int) -> Sequence[Params]:
        return [{f"{LEARNED}/{STEP}": step} for step in steps_of_trials(self.steps, self.n_trials)]
