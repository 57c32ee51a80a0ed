"""`InputGenerator` under its import path in MASE."""

from chop.runs.input_generator import InputGenerator

__all__ = ["InputGenerator"]
