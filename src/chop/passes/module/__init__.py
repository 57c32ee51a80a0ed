"""Passes over modules that need not be traced."""

from chop.passes.module.quantize import quantize_module_transform_pass

__all__ = ["quantize_module_transform_pass"]
