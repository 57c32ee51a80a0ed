"""Which nodes are sensitive to a number format, and how much it affects the model."""

from chop.passes.graph.analysis.sensitivity.measure import (
    Effect,
    LabelledReplacements,
    Sensitivity,
    measure_sensitivity,
)
from chop.passes.graph.analysis.sensitivity.measure import LabelledReplacements as Candidates  # its earlier name
from chop.passes.graph.analysis.sensitivity.sensitivity import labelled_replacements, sensitivity_analysis_pass
from chop.passes.graph.analysis.sensitivity.sensitivity import (
    labelled_replacements as candidates_of,  # its earlier name
)

__all__ = [
    "Candidates",
    "Effect",
    "LabelledReplacements",
    "Sensitivity",
    "candidates_of",
    "labelled_replacements",
    "measure_sensitivity",
    "sensitivity_analysis_pass",
]
