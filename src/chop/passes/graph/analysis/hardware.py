"""Describe, estimate, simulate and synthesise the circuit of a graph.

The engines are imported when a pass runs: they are 50 modules, which most commands do not need.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray

from chop.config import DesignOptions, SimulationOptions, SimulatorName, option
from chop.ir import MaseGraph
from chop.ir.graph.interpreter import tensors_in
from chop.passes.base import PassResult, register_pass
from chop.statistics.batches import limited_batches


@register_pass("add_hardware_metadata", kind="analysis")
def add_hardware_metadata_analysis_pass(graph: MaseGraph, args: DesignOptions) -> PassResult:
    """Add strategy, ports, accumulator, requantisation, timing and area to `parameters["hardware"]` of each node.

    Nodes that are computed by one unit, such as a linear layer and the ReLU after it, have the same entries. A
    node without an own circuit, such as flatten, has none.
    """
    from chop.hardware.describe import describe_units
    from chop.hardware.prepare import prepare
    from chop.hardware.rtl.design import make_design

    prepared = prepare(graph, args.strict)
    design = make_design(prepared.program, args)
    by_node: dict[str, dict[str, Any]] = {}
    for described in describe_units(design):
        by_node |= dict.fromkeys(described["nodes"], described)
    by_node |= {old: by_node[new] for old, new in prepared.renamed.items() if new in by_node}
    for meta in graph.annotated_metas():
        if meta.node.name in by_node:
            meta.hardware.update(by_node[meta.node.name])
    return graph, {"by_node": by_node}


@register_pass("estimate_hardware", kind="analysis")
def estimate_hardware_analysis_pass(graph: MaseGraph, args: DesignOptions) -> PassResult:
    """Estimate look-up tables, flip-flops and DSP blocks (Xilinx 7 series), latency and interval in cycles."""
    from chop.hardware.describe import describe_units
    from chop.hardware.prepare import design_graph

    design = design_graph(graph, args)
    by_node = {
        unit["nodes"][0]: {**unit["estimate"], "latency": unit["latency"], "interval": unit["interval"]}
        for unit in describe_units(design)
    }
    total = {**vars(design.estimate), "latency": design.latency, "interval": design.interval}
    return graph, {"total": total, "by_node": by_node}


@dataclass(frozen=True, kw_only=True)
class CosimulateArgs(SimulationOptions):
    """Arguments of `cosimulate`."""

    input_generator: Iterable[Mapping[str, Any]] = ()
    """Batches by argument name; their rows are the vectors."""
    simulator: SimulatorName = option(
        "emulator", help="what computes the integers: the program in numpy alone, or a simulator of the circuit"
    )
    save_dir: Path | None = None
    """A folder to keep the circuit and the simulation in; None: a temporary one."""


@register_pass("cosimulate", kind="analysis")
def cosimulate_analysis_pass(graph: MaseGraph, args: CosimulateArgs) -> PassResult:
    """Check on data that fake quantisation, the integer program and the simulated circuit agree on every bit.

    `info` has the number of vectors and of those that are equal, and the measured latency and interval. A
    difference is an error that names the first wrong vector, output and node.
    """
    from chop.hardware.cosimulate import simulate_circuit
    from chop.hardware.prepare import prepare
    from chop.hardware.rtl.design import make_design

    rows = _rows(args.input_generator, args.samples)
    prepared = prepare(graph, args.strict)
    prepared.check(rows)
    beyond = list(prepared.program.beyond_float32)
    info: dict[str, Any] = {"num_vectors": len(rows), "num_equal": len(rows), "beyond_float32": beyond}
    if args.simulator == "emulator":
        return graph, info
    design = make_design(prepared.program, args)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) if args.save_dir is None else args.save_dir
        steady, *_ = (result for _, result in simulate_circuit(design, rows, args, folder))
    measured = {"simulator": steady.simulator, "latency": steady.latency, "interval": steady.interval}
    return graph, info | measured


def _rows(batches: Iterable[Mapping[str, Any]], limit: int) -> NDArray[np.floating[Any]]:
    """Return up to `limit` rows of the first tensor of each batch."""
    parts = [tensors_in(list(batch.values()))[0] for batch in limited_batches(batches, limit)]
    if not parts:
        raise ValueError("cosimulate_analysis_pass: input_generator yields no batches")
    return torch.cat(parts).cpu().numpy()


@dataclass(frozen=True, kw_only=True)
class ReportSynthesisArgs(DesignOptions):
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
        super().__post_init__()
        if self.route and self.family != "ecp5":
            raise ValueError(f"'route' needs the family 'ecp5', got '{self.family}'")


@register_pass("report_synthesis", kind="analysis")
def report_synthesis_analysis_pass(graph: MaseGraph, args: ReportSynthesisArgs) -> PassResult:
    """Synthesise the circuit with Yosys and count its look-up tables, flip-flops, DSP blocks and memories."""
    from chop.hardware.describe import computing_units
    from chop.hardware.emit import REPORTS, write_rtl
    from chop.hardware.prepare import design_graph
    from chop.hardware.synthesis import measure_area, routed_mhz

    design = design_graph(graph, args)
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
