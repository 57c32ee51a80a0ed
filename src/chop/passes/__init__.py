"""Passes over graphs, and over modules that cannot be traced."""

from chop.passes import graph
from chop.passes.base import ANALYSIS_PASSES, INTERFACE_PASSES, PASSES, TRANSFORM_PASSES, PassResult, register_pass

__all__ = [
    "ANALYSIS_PASSES",
    "INTERFACE_PASSES",
    "PASSES",
    "TRANSFORM_PASSES",
    "PassResult",
    "graph",
    "register_pass",
]
