"""`InputGenerator` under the import path that MASE gave it."""

from chop.runs.input_generator import InputGenerator

__all__ = ["InputGenerator"]
