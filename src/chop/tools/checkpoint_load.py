"""`load_model` under the import path that MASE gave it."""

from chop.runs.weights import load_model

__all__ = ["load_model"]
