"""Measuring configurations: loss, accuracy and cost, with or without training."""

from chop.searching.evaluation import hardware_runners
from chop.searching.evaluation.basic_evaluation import BasicEvaluation
from chop.searching.evaluation.cost_runners import (
    COST_RUNNERS,
    CostRunner,
    default_cost_runners,
    register_cost_runner,
)

__all__ = [
    "COST_RUNNERS",
    "BasicEvaluation",
    "CostRunner",
    "default_cost_runners",
    "hardware_runners",
    "register_cost_runner",
]
