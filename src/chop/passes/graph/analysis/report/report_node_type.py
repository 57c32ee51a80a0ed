"""Print the type of each node."""

from __future__ import annotations

from dataclasses import dataclass

from chop.ir import MaseGraph
from chop.passes.base import PassResult, register_pass
from chop.passes.graph.analysis.report.table import NODE_HEADERS, node_cells, print_bordered_table


@dataclass(frozen=True)
class ReportNodeTypeArgs:
    """No arguments."""


@register_pass("report_node_type", kind="analysis", prints=True)
def report_node_type_analysis_pass(graph: MaseGraph, args: ReportNodeTypeArgs) -> PassResult:
    """Print a table of the nodes' fx ops, MASE types and MASE ops."""
    print_bordered_table([node_cells(meta) for meta in graph.annotated_metas()], NODE_HEADERS)
    return graph, {}
