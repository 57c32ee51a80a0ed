"""Which nodes are sensitive to a number format, and how much it affects the model."""

# mypy: implicit-reexport

from chop.passes.graph.analysis.sensitivity.measure import (
    Effect,
    LabelledReplacements,
    Sensitivity,
    measure_sensitivity,
)
from chop.passes.graph.analysis.sensitivity.sensitivity import labelled_replacements, sensitivity_analysis_pass

Candidates = LabelledReplacements  # the earlier names
candidates_of = labelled_replacements
