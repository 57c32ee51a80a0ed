"""Measure the area of the circuit of a graph with Yosys."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from chop.hardware.arguments import DesignArgs
from chop.hardware.describe import computing_units
from chop.hardware.emit import REPORTS, write_rtl
from chop.hardware.synthesis.route import routed_mhz
from chop.hardware.synthesis.yosys import measure_area
from chop.ir import MaseGraph
from chop.passes.base import PassResult, register_pass


@dataclass(frozen=True)
class ReportSynthesisArgs(DesignArgs):
    """Arguments of `report_synthesis`."""

    family: Literal["xc7", "ecp5"] = "xc7"
    """The family of FPGAs: Xilinx 7 series or Lattice ECP5."""
    by_node: bool = False
    """Whether each node is also synthesised alone, which shows where the area goes."""
    route: bool = False
    """Whether the circuit is also placed and routed, by nextpnr; for the family `ecp5` only."""
    save_dir: Path | None = None
    """A folder to keep the circuit, the reports and the netlist in; None: a temporary one."""

    def __post_init__(self) -> None:
        if self.route and self.family != "ecp5":
            raise ValueError(f"'route' needs the family 'ecp5', got '{self.family}'")


@register_pass("report_synthesis", kind="analysis")
def report_synthesis_analysis_pass(graph: MaseGraph, args: ReportSynthesisArgs) -> PassResult:
    """Synthesise the circuit with Yosys and count its look-up tables, flip-flops, DSP blocks and memories."""
    design = args.design(graph)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) if args.save_dir is None else args.save_dir
        files = write_rtl(design, folder)

        def measured(module: str) -> dict[str, Any]:
            area = measure_area(files, module, folder / REPORTS, args.family)
            return {"lut": area.lut, "ff": area.ff, "dsp": area.dsp, "bram": area.bram}

        total = measured(design.options.name)
        if args.route:
            total["mhz"] = routed_mhz(folder / REPORTS, design.options.name, args.clock_mhz)
        units = computing_units(design) if args.by_node else []
        by_node = {planned.unit.node: measured(planned.module) for planned in units}
    return graph, {"total": total, "by_node": by_node, "estimate": vars(design.estimate)}
