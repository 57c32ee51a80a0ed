"""Write the circuit of a graph."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from chop.hardware.arguments import DesignArgs
from chop.hardware.emit import write_rtl
from chop.ir import MaseGraph
from chop.passes.base import PassResult, register_pass


@dataclass(frozen=True, kw_only=True)
class EmitVerilogArgs(DesignArgs):
    """Arguments of `emit_verilog`."""

    save_dir: Path = field()
    """The folder to write `rtl`, `scripts` and `manifest.json` into."""
    axi_stream: bool = False
    """Whether to add a top module with AXI4-Stream ports."""


@register_pass("emit_verilog", kind="transform")
def emit_verilog_transform_pass(graph: MaseGraph, args: EmitVerilogArgs) -> PassResult:
    """Write the circuit of the graph as SystemVerilog, with scripts for Vivado and Quartus."""
    design = args.design(graph)
    files = write_rtl(design, args.save_dir, args.axi_stream)
    return graph, {"files": [str(path) for path in files], "latency": design.latency, "interval": design.interval}
