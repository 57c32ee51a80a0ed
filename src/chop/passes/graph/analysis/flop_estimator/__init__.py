"""Kept for a MASE import path; the counts come from `chop.ops` and `chop.cost`."""

from chop.passes.graph.analysis.flop_estimator.calculator import calculate_modules

__all__ = ["calculate_modules"]
