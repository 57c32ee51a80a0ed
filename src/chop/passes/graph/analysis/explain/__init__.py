"""Explain one node: its values, formats and cost, as numbers and as text."""

from chop.passes.graph.analysis.explain.explanation import Cost, Explanation, Tensors
from chop.passes.graph.analysis.explain.node import explain, explain_analysis_pass, explain_node
from chop.passes.graph.analysis.explain.suggest import Suggestion
from chop.statistics.range_meter import FormatFit
from chop.statistics.range_meter import FormatFit as Measured  # its earlier name

__all__ = [
    "Cost",
    "Explanation",
    "FormatFit",
    "Measured",
    "Suggestion",
    "Tensors",
    "explain",
    "explain_analysis_pass",
    "explain_node",
]
