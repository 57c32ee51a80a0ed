"""Passes that describe, estimate, simulate and synthesise the circuit of a graph."""

from chop.passes.graph.analysis.hardware.add_hardware_metadata import add_hardware_metadata_analysis_pass
from chop.passes.graph.analysis.hardware.cosimulate import cosimulate_analysis_pass
from chop.passes.graph.analysis.hardware.estimate_hardware import estimate_hardware_analysis_pass
from chop.passes.graph.analysis.hardware.report_synthesis import report_synthesis_analysis_pass

__all__ = [
    "add_hardware_metadata_analysis_pass",
    "cosimulate_analysis_pass",
    "estimate_hardware_analysis_pass",
    "report_synthesis_analysis_pass",
]
