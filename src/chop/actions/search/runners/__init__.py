"""What is measured of a configuration, one file a runner."""

from chop.actions.search.runners import average_bitwidth, bitops, memory  # noqa: F401  (they register themselves)
from chop.actions.search.runners.base import COST_RUNNERS, CostRunner
from chop.actions.search.runners.basic_evaluation import BasicEvaluation

__all__ = ["COST_RUNNERS", "BasicEvaluation", "CostRunner"]
