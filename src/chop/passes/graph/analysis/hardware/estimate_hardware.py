"""Estimate area and timing of the circuit of a graph."""

from __future__ import annotations

from dataclasses import dataclass

from chop.hardware.arguments import DesignArgs
from chop.hardware.describe import computing_units
from chop.ir import MaseGraph
from chop.passes.base import PassResult, register_pass


@dataclass(frozen=True)
class EstimateHardwareArgs(DesignArgs):
    """Arguments of `estimate_hardware`."""


@register_pass("estimate_hardware", kind="analysis")
def estimate_hardware_analysis_pass(graph: MaseGraph, args: EstimateHardwareArgs) -> PassResult:
    """Estimate look-up tables, flip-flops and DSP blocks (Xilinx 7 series), latency and interval in cycles."""
    design = args.design(graph)
    timings = design.timings()
    by_node = {
        planned.unit.node: {**vars(planned.area), "latency": timing.latency, "interval": timing.interval}
        for planned in computing_units(design)
        for timing in [timings[planned.unit.name]]
    }
    total = {**vars(design.estimate), "latency": design.latency, "interval": design.interval}
    return graph, {"total": total, "by_node": by_node}
