"""All about one node, in numbers and in words."""

from chop.passes.graph.analysis.explain.explanation import Cost, Explanation, Tensors
from chop.passes.graph.analysis.explain.node import explain, explain_analysis_pass, explain_node
from chop.passes.graph.analysis.explain.suggest import Suggestion
from chop.statistics.range_meter import Measured

__all__ = [
    "Cost",
    "Explanation",
    "Measured",
    "Suggestion",
    "Tensors",
    "explain",
    "explain_analysis_pass",
    "explain_node",
]
