"""Kept for an import path of MASE; the counts are those of `chop.ops` and `chop.cost`."""

from chop.passes.graph.analysis.flop_estimator.calculator import calculate_modules

__all__ = ["calculate_modules"]
