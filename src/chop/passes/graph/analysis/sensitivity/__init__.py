"""Which nodes suffer from a number format, and how much the model does."""

from chop.passes.graph.analysis.sensitivity.measure import Candidates, Effect, Sensitivity, measure_sensitivity
from chop.passes.graph.analysis.sensitivity.sensitivity import candidates_of, sensitivity_analysis_pass

__all__ = [
    "Candidates",
    "Effect",
    "Sensitivity",
    "candidates_of",
    "measure_sensitivity",
    "sensitivity_analysis_pass",
]
