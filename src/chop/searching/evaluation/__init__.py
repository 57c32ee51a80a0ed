"""What is measured of a configuration, one file a runner."""

from chop.searching.evaluation import average_bitwidth, bitops, memory  # noqa: F401  (they register themselves)
from chop.searching.evaluation.basic_evaluation import BasicEvaluation
from chop.searching.evaluation.cost_metrics import COST_RUNNERS, CostRunner

__all__ = ["COST_RUNNERS", "BasicEvaluation", "CostRunner"]
