"""Print the input and output shapes of each node."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from chop.ir import MaseGraph, TensorMeta
from chop.passes.base import PassResult, register_pass
from chop.passes.graph.analysis.report.table import NODE_HEADERS, node_cells, print_bordered_table


@dataclass(frozen=True)
class ReportNodeShapeArgs:
    """No arguments."""


@register_pass("report_node_shape", kind="analysis", prints=True)
def report_node_shape_analysis_pass(graph: MaseGraph, args: ReportNodeShapeArgs) -> PassResult:
    """Print a table of the nodes' input and output shapes, one line per tensor: `weight: [5, 16]`."""
    rows = [[*node_cells(meta), _shapes(meta.args), _shapes(meta.results)] for meta in graph.annotated_metas()]
    print_bordered_table(rows, (*NODE_HEADERS, "Input shapes", "Output shapes"))
    return graph, {}


def _shapes(tensors: Mapping[str, TensorMeta]) -> str:
    return "\n".join(f"{name}: {tensor.shape}" for name, tensor in tensors.items())
