"""Describe the circuit of each node."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from chop.hardware.arguments import DesignArgs
from chop.hardware.describe import describe_units
from chop.hardware.prepare import prepare
from chop.hardware.rtl.design import make_design
from chop.ir import MaseGraph
from chop.passes.base import PassResult, register_pass


@dataclass(frozen=True)
class HardwareMetadataArgs(DesignArgs):
    """Arguments of `add_hardware_metadata`."""


@register_pass("add_hardware_metadata", kind="analysis")
def add_hardware_metadata_analysis_pass(graph: MaseGraph, args: HardwareMetadataArgs) -> PassResult:
    """Add strategy, ports, accumulator, requantisation, timing and area to `parameters["hardware"]` of each node.

    Nodes that are computed by one unit, such as a linear layer and the ReLU after it, have the same entries. A
    node without an own circuit, such as flatten, has none.
    """
    prepared = prepare(graph, args.strict)
    design = make_design(prepared.program, args.design_options())
    by_node: dict[str, dict[str, Any]] = {}
    for described in describe_units(design):
        by_node |= dict.fromkeys(described["nodes"], described)
    by_node |= {old: by_node[new] for old, new in prepared.renamed.items() if new in by_node}
    for meta in graph.annotated_metas():
        if meta.node.name in by_node:
            meta.hardware.update(by_node[meta.node.name])
    return graph, {"by_node": by_node}
