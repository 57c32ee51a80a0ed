"""Measuring configurations: loss, accuracy and cost, with or without training."""

from chop.searching.evaluation.cost_runners import (
    COST_RUNNERS,
    CostRunner,
    default_cost_runners,
    register_cost_runner,
)
from chop.searching.evaluation.software_runners import BasicEvaluation

__all__ = ["COST_RUNNERS", "BasicEvaluation", "CostRunner", "default_cost_runners", "register_cost_runner"]
