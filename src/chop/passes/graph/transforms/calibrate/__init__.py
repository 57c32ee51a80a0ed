"""Calibration of quantised graphs."""

from chop.passes.graph.transforms.calibrate.calibrate import calibrate_transform_pass

__all__ = ["calibrate_transform_pass"]
