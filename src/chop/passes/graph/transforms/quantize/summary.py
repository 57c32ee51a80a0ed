"""Tables of what quantisation changed, by node and by type.

This analysis is among the transforms because the course notes import `graph_iterator_compare_nodes` from this
module. The names of the functions are MASE's as well.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tabulate import tabulate
from torch import fx

from chop.files import write_text
from chop.ir import MaseGraph
from chop.nn.quantized import QuantizedCall, QuantizedLayer
from chop.passes.base import PassResult, register_pass
from chop.passes.graph.utils import get_mase_op, get_mase_type, get_node_actual_target

if TYPE_CHECKING:
    import pandas as pd

TABLE_FILE = "quantize_table.csv"
_COLUMNS = ("Ori name", "New name", "MASE_TYPE", "Mase_OP", "Original type", "Quantized type", "Changed", "Formats")


@dataclass(frozen=True)
class SummarizeQuantizationArgs:
    """Arguments of `summarize_quantization`."""

    save_dir: Path | None = None
    """The folder to write `quantize_table.csv` and `quantize_histogram.csv` to; None writes no files."""
    original: MaseGraph | None = field(default=None, metadata={"aliases": ("ori_graph",)})
    """The graph to compare with, which needs no metadata; in a pipeline, the graph before the transforms."""


@register_pass("summarize_quantization", kind="analysis", prints=True, two_graphs=True)
def summarize_quantization_analysis_pass(graph: MaseGraph, args: SummarizeQuantizationArgs) -> PassResult:
    """Print what quantisation changed, by node and by type; `info` has both tables, `table` and `histogram`.

    Also called as `summarize_quantization_analysis_pass(original, graph, save_dir=None)`.
    """
    original, folder = args.original, args.save_dir
    if original is None:
        raise ValueError("summarize_quantization_analysis_pass: 'original', the graph to compare with, is required")
    table = graph_iterator_compare_nodes(original, graph, folder and folder / TABLE_FILE)
    histogram = graph_iterator_node_histogram(original, graph, folder and folder / "quantize_histogram.csv")
    return graph, {"table": table, "histogram": histogram}


def graph_iterator_compare_nodes(
    ori_graph: MaseGraph, graph: MaseGraph, save_path: str | Path | None = None, silent: bool = False
) -> pd.DataFrame:
    """Return a table with one row per node: its types in both graphs, and whether it has changed.

    A node has changed if it calls another layer or function, or the same one in other formats. The table is
    printed unless `silent`.
    """
    import pandas as pd

    rows = [
        [
            before.name,
            after.name,
            get_mase_type(after),
            get_mase_op(after),
            _type_name(before),
            _type_name(after),
            _callee(before) != _callee(after),
            _formats(after),
        ]
        for before, after in _pairs(ori_graph, graph)
    ]
    table = pd.DataFrame(rows, columns=list(_COLUMNS))
    if not silent:
        _print("Nodes of the original and of the quantised graph", table, show_index=False)
    if save_path is not None:
        _save(table, save_path, index=False)
    return table


def graph_iterator_node_histogram(
    ori_graph: MaseGraph, graph: MaseGraph, save_path: str | Path | None = None
) -> pd.DataFrame:
    """Return and print a table with one row per original type: its op, and how many nodes were changed."""
    import pandas as pd

    groups = graph_iterator_compare_nodes(ori_graph, graph, silent=True).groupby("Original type")
    total, changed = groups.size(), groups["Changed"].sum()
    histogram = pd.DataFrame(
        {
            "OP": groups["Mase_OP"].first(),
            "Total": total,
            "Changed": changed,
            "Unchanged": total - changed,
        }
    )
    _print("Changes by original type", histogram, show_index=True)
    if save_path is not None:
        _save(histogram, save_path, index=True)
    return histogram


def _pairs(ori_graph: MaseGraph, graph: MaseGraph) -> list[tuple[fx.Node, fx.Node]]:
    """Return the nodes of both graphs in pairs; they must have the same names."""
    pairs: list[tuple[fx.Node, fx.Node]] = []
    for before, after in zip_longest(ori_graph.fx_graph.nodes, graph.fx_graph.nodes):
        if before is None or after is None or before.name != after.name:
            was, now = (f"'{node.name}'" if node is not None else "no node" for node in (before, after))
            raise ValueError(
                f"only graphs with the same nodes can be compared: node {len(pairs)} is {was} in the original "
                f"and {now} in the other graph"
            )
        pairs.append((before, after))
    return pairs


def _type_name(node: fx.Node) -> str:
    """Return the class of a layer, the name of a function or method, else the node's target."""
    if node.op == "call_module":
        return type(get_node_actual_target(node)).__name__
    return str(getattr(node.target, "__name__", node.target))


def _callee(node: fx.Node) -> tuple[object, Any]:
    """Return what a node calls, and its formats, None if it is not quantised."""
    target = get_node_actual_target(node) if node.op == "call_module" else node.target
    if isinstance(target, QuantizedCall):
        return target.target, target.formats
    if isinstance(target, QuantizedLayer):
        return type(target), target.formats
    return (type(target) if node.op == "call_module" else target), None


def _formats(node: fx.Node) -> str:
    """Return the formats of a node's operands: `data_in integer(8, 4), weight integer(4, 2)`."""
    formats = _callee(node)[1] or {}
    return ", ".join(f"{name.removesuffix('_0')} {each}" for name, each in formats.items())


def _print(title: str, table: pd.DataFrame, *, show_index: bool) -> None:
    print(f"{title}:")
    print(tabulate(table, headers="keys", tablefmt="orgtbl", showindex=show_index))  # type: ignore[arg-type]


def _save(table: pd.DataFrame, path: str | Path, *, index: bool) -> None:
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    write_text(Path(path), table.to_csv(index=index))
