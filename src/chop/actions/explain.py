"""`ch explain`."""

from __future__ import annotations

from tabulate import tabulate

from chop.config import ExplainConfig
from chop.ir import MaseGraph
from chop.passes.graph.analysis.explain import explain_node
from chop.runs.run import open_run


def explain(config: ExplainConfig) -> None:
    """Print the explanation of one node of a run, or the list of its nodes."""
    run = open_run(config.run, config.project_dir)
    if config.node is None:
        print(_list_nodes(run.graph))
        return
    print(explain_node(run.graph, config.node, run.test_batches(config.samples), config.samples, config.sqnr))


def _list_nodes(graph: MaseGraph) -> str:
    rows = [
        (meta.node.name, meta.mase_op, ", ".join(f"{name} {each}" for name, each in formats.items()) or "-")
        for meta in graph.annotated_metas()
        for formats in [meta.quantized.formats if meta.quantized is not None else {}]
    ]
    return tabulate(rows, ("node", "op", "formats"))
