"""Explain one node: its values, formats and cost, as numbers and as text."""

# mypy: implicit-reexport

from chop.passes.graph.analysis.explain.explanation import Cost, ExplainedTensor, Explanation
from chop.passes.graph.analysis.explain.node import explain, explain_analysis_pass, explain_node
from chop.passes.quantization.suggest import Suggestion
from chop.statistics.format_fit import FormatFit

Tensors = ExplainedTensor  # the earlier names
Measured = FormatFit
