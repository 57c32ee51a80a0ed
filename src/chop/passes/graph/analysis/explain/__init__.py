"""Explain one node: its values, formats and cost, as numbers and as text."""

from chop.passes.graph.analysis.explain.explanation import Cost, ExplainedTensor, Explanation
from chop.passes.graph.analysis.explain.explanation import ExplainedTensor as Tensors  # its earlier name
from chop.passes.graph.analysis.explain.node import explain, explain_analysis_pass, explain_node
from chop.passes.quantization.suggest import Suggestion
from chop.statistics.format_fit import FormatFit
from chop.statistics.format_fit import FormatFit as Measured  # its earlier name

__all__ = [
    "Cost",
    "ExplainedTensor",
    "Explanation",
    "FormatFit",
    "Measured",
    "Suggestion",
    "Tensors",
    "explain",
    "explain_analysis_pass",
    "explain_node",
]
