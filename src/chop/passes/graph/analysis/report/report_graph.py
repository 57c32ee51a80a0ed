"""Print the fx graph of a model."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from chop.ir import MaseGraph
from chop.passes.base import PassResult, register_pass
from chop.passes.graph.utils import get_node_actual_target

_FX_OPS = ("placeholder", "get_attr", "call_function", "call_method", "call_module", "output")


@dataclass(frozen=True)
class ReportGraphArgs:
    """Arguments of `report_graph`."""

    file_name: Path | None = None
    """The file to write the report to; None prints it."""


@register_pass("report_graph", kind="analysis", prints=True)
def report_graph_analysis_pass(graph: MaseGraph, args: ReportGraphArgs) -> PassResult:
    """Print the fx graph, the number of nodes per fx op, and its layers. No metadata is needed."""
    nodes = graph.fx_graph.nodes
    counted = Counter(node.op for node in nodes)
    layers = [get_node_actual_target(node) for node in nodes if node.op == "call_module"]
    report = "\n".join(
        [
            str(graph.fx_graph),
            "Network overview:",
            str({op: counted[op] for op in _FX_OPS}),
            "Layer types:",
            str(layers),
        ]
    )
    if args.file_name is None:
        print(report)
    else:
        args.file_name.parent.mkdir(parents=True, exist_ok=True)
        args.file_name.write_text(report + "\n", encoding="utf-8")
    return graph, {}
