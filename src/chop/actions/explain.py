"""`ch explain`."""

from __future__ import annotations

import shlex
import sys

from tabulate import tabulate

from chop.config import ExplainConfig
from chop.display.launcher import launcher
from chop.ir import MaseGraph
from chop.passes.graph.analysis.explain import explain_node
from chop.registry import UnknownNameError, closest
from chop.runs import Run, list_runs, open_run


def explain(config: ExplainConfig) -> None:
    """Print the explanation of one node of a run, or the list of its nodes."""
    run, node = _find(config)
    if node is None:
        print(_list_nodes(run.graph))
        # the first quantised node, else the first one that could be, else the first one
        metas = run.graph.annotated_metas()
        example = max(metas, key=lambda meta: (meta.quantized is not None, meta.quantizable)).node.name
        print(f"next: {launcher()} {shlex.join(['explain', str(run.folder), example])}", file=sys.stderr)
        return
    print(explain_node(run.graph, node, run.test_batches(config.samples), config.samples, config.sqnr))


def _find(config: ExplainConfig) -> tuple[Run, str | None]:
    """Return the run and the node; a single argument that names no run is a node of the newest run."""
    try:
        return open_run(config.run, config.project_dir, config.accelerator), config.node
    except UnknownNameError as error:
        if config.node is not None or not list_runs(config.project_dir):
            raise
        run, name = open_run(None, config.project_dir, config.accelerator), str(config.run)
        names = [meta.node.name for meta in run.graph.metas()]
        if name in names:
            return run, name
        raise UnknownNameError(
            f"there is neither a run nor a node of the newest run called '{name}'; {closest(name, names)}"
        ) from error


def _list_nodes(graph: MaseGraph) -> str:
    rows = []
    for meta in graph.annotated_metas():
        formats = meta.quantized.formats if meta.quantized is not None else {}
        shown = ", ".join(f"{name} {number_format}" for name, number_format in formats.items())
        rows.append((meta.node.name, meta.mase_op, shown or "-"))
    return tabulate(rows, ("node", "op", "formats"))
