"""`load_model` under its import path in MASE."""

from chop.runs.weights import load_model

__all__ = ["load_model"]
