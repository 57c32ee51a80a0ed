"""Write the circuit of a graph, and its test bench."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from chop.config import CircuitOptions, option
from chop.hardware.emit import write_rtl, write_testbench
from chop.hardware.prepare import design_graph
from chop.ir import MaseGraph
from chop.passes.base import PassResult, register_pass


@dataclass(frozen=True, kw_only=True)
class EmitVerilogArgs(CircuitOptions):
    """Arguments of `emit_verilog`."""

    save_dir: Path = option(help="folder to write `rtl`, `scripts` and `manifest.json` into")


@register_pass("emit_verilog", kind="transform")
def emit_verilog_transform_pass(graph: MaseGraph, args: EmitVerilogArgs) -> PassResult:
    """Write the circuit of the graph as SystemVerilog, with scripts for Vivado and Quartus."""
    design = design_graph(graph, args)
    files = write_rtl(design, args.save_dir, args.axi_stream)
    return graph, {"files": [str(path) for path in files], "latency": design.latency, "interval": design.interval}


@dataclass(frozen=True, kw_only=True)
class EmitTestbenchArgs(CircuitOptions):
    """Arguments of `emit_testbench`."""

    save_dir: Path = option(help="folder to write `tb` into")


@register_pass("emit_testbench", kind="transform")
def emit_testbench_transform_pass(graph: MaseGraph, args: EmitTestbenchArgs) -> PassResult:
    """Write the test bench of the circuit that `emit_verilog` writes with the same options."""
    files = write_testbench(design_graph(graph, args), args.save_dir, args.axi_stream)
    return graph, {"files": [str(path) for path in files]}
