"""Prepare a graph for hardware, and write its circuit and test bench."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from chop.config import CircuitOptions, ResolveOptions, option
from chop.hardware.emit import write_rtl, write_testbench
from chop.hardware.prepare import design_graph
from chop.hardware.resolve import fold_batch_norms, resolve_formats
from chop.ir import MaseGraph
from chop.passes.base import LabelledDataArgs, PassResult, register_pass
from chop.statistics.scoring import accuracy_on

logger = logging.getLogger(__name__)


@register_pass("fold_batch_norm", kind="transform")
def fold_batch_norm_transform_pass(graph: MaseGraph, args: LabelledDataArgs) -> PassResult:
    """Fold each batch norm into the linear layer or convolution before it, or else after it.

    The folded weights are rounded to the formats of their layer again. `info["renamed"]` has, for each batch norm
    that is gone, the node that computes its result; `info["accuracy"]` the accuracy before and after.
    """
    return _with_accuracy(graph, args, lambda: {"renamed": fold_batch_norms(graph)})


@dataclass(frozen=True, kw_only=True)
class ResolveFormatsArgs(ResolveOptions, LabelledDataArgs):
    """Arguments of `resolve_formats`."""


@register_pass("resolve_formats", kind="transform")
def resolve_formats_transform_pass(graph: MaseGraph, args: ResolveFormatsArgs) -> PassResult:
    """Give every node the fixed-point formats that hardware needs, from its nearest neighbour.

    A batch norm becomes a factor and a summand per channel; the mean of a number of elements that is not a power of
    two, a product with a quantised reciprocal; the scale of binary and ternary weights is rounded to fixed point.
    `info` has the formats that were `completed`, by node and operand; the nodes that are `exact` without a format;
    the `reciprocals`; the `scales`; and the `accuracy` before and after.
    """

    def resolve() -> dict[str, Any]:
        resolved = resolve_formats(graph, args.strict)
        for node, formats in resolved.completed.items():
            shown = ", ".join(f"{name} {number_format}" for name, number_format in formats.items())
            logger.info("resolve_formats '%s': %s", node, shown)
        return {**vars(resolved)}

    return _with_accuracy(graph, args, resolve)


def _with_accuracy(graph: MaseGraph, args: LabelledDataArgs, change: Callable[[], dict[str, Any]]) -> PassResult:
    """Change a graph, and add the accuracy before and after to what was changed."""
    batches = None if args.labelled_batches is None else list(args.labelled_batches)
    before = accuracy_on(graph, batches)
    changed = change()
    graph.model.recompile()
    return graph, {**changed, "accuracy": {"before": before, "after": accuracy_on(graph, batches)}}


@dataclass(frozen=True, kw_only=True)
class EmitArgs(CircuitOptions):
    """Arguments of `emit_verilog` and `emit_testbench`."""

    save_dir: Path = option(help="folder to write into: `rtl`, `scripts` and `manifest.json`, or `tb`")


@register_pass("emit_verilog", kind="transform")
def emit_verilog_transform_pass(graph: MaseGraph, args: EmitArgs) -> PassResult:
    """Write the circuit of the graph as SystemVerilog, with scripts for Vivado and Quartus."""
    design = design_graph(graph, args)
    files = write_rtl(design, args.save_dir, args.axi_stream)
    return graph, {"files": [str(path) for path in files], "latency": design.latency, "interval": design.interval}


@register_pass("emit_testbench", kind="transform")
def emit_testbench_transform_pass(graph: MaseGraph, args: EmitArgs) -> PassResult:
    """Write the test bench of the circuit that `emit_verilog` writes with the same options."""
    files = write_testbench(design_graph(graph, args), args.save_dir, args.axi_stream)
    return graph, {"files": [str(path) for path in files]}
