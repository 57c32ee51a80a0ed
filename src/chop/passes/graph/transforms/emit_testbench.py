"""Write the test bench of the circuit of a graph."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from chop.hardware.arguments import DesignArgs
from chop.hardware.emit import write_testbench
from chop.ir import MaseGraph
from chop.passes.base import PassResult, register_pass


@dataclass(frozen=True, kw_only=True)
class EmitTestbenchArgs(DesignArgs):
    """Arguments of `emit_testbench`."""

    save_dir: Path = field()
    """The folder to write `tb` into."""
    axi_stream: bool = False
    """Whether to test the top module with AXI4-Stream ports."""


@register_pass("emit_testbench", kind="transform")
def emit_testbench_transform_pass(graph: MaseGraph, args: EmitTestbenchArgs) -> PassResult:
    """Write the test bench of the circuit that `emit_verilog` writes with the same options."""
    files = write_testbench(args.design(graph), args.save_dir, args.axi_stream)
    return graph, {"files": [str(path) for path in files]}
