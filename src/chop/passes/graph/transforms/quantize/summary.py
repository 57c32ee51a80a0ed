"""Tables of what quantisation changed, by node and by type.

This analysis is among the transforms because the course notes import `graph_iterator_compare_nodes` from this
module. The names of the functions are MASE's as well.
"""

from __future__ import annotations

import csv
import shutil
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from io import StringIO
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from tabulate import tabulate
from torch import fx

from chop.display.html import shown_in_notebook
from chop.display.tables import HEADER_PADDING
from chop.files import write_text
from chop.formats import Format
from chop.ir import MaseGraph
from chop.ir.graph.meta import get_node_actual_target
from chop.nn.quantized import QuantizedCall, QuantizedLayer
from chop.passes.base import PassResult, register_pass

if TYPE_CHECKING:
    import pandas as pd

TABLE_FILE = "quantize_table.csv"
_HISTOGRAM_FILE = "quantize_histogram.csv"
_BY_NODE = ("Ori name", "New name", "MASE_TYPE", "Mase_OP", "Original type", "Quantized type", "Changed", "Formats")
_BY_TYPE = ("Original type", "OP", "Total", "Changed", "Unchanged")
_LESS_IMPORTANT = {_BY_NODE: ("New name", "MASE_TYPE", "Changed", "Original type"), _BY_TYPE: ("OP",)}
"""The columns that a narrow terminal does not show, the least important first; both graphs have the same names."""
_WIDEST = "Formats"
_MIN_FORMATS = 24  # characters of a line of formats
_SEPARATOR = 3  # characters between two columns, and around all of them


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
    if args.original is None:
        raise ValueError("summarize_quantization_analysis_pass: 'original', the graph to compare with, is required")
    nodes, types = summarize_quantization(args.original, graph, args.save_dir)
    return graph, {"table": nodes.frame(), "histogram": types.frame().set_index(_BY_TYPE[0])}


class SummaryTable(NamedTuple):
    """A table as plain rows: importing pandas takes half a second, which `ch transform` does not spend."""

    title: str
    columns: tuple[str, ...]
    rows: list[tuple[Any, ...]]

    def frame(self) -> pd.DataFrame:
        """Return the table as a data frame."""
        import pandas as pd

        return pd.DataFrame(self.rows, columns=list(self.columns))

    def print(self) -> None:
        """Print the title and the table; on a narrow terminal with fewer columns, and formats in several lines."""
        print(f"{self.title}:")
        if shown_in_notebook(self.columns, self.rows):
            return
        if sys.stdout.isatty():
            self._print_within(shutil.get_terminal_size().columns)
        else:
            print(tabulate(self.rows, headers=self.columns, tablefmt="orgtbl"))

    def _print_within(self, width: int) -> None:
        columns = list(self.columns)
        cells = zip(columns, zip(*self.rows, strict=True), strict=True)
        widths = {name: max(len(name) + HEADER_PADDING, *map(len, map(str, texts))) for name, texts in cells}
        needed = {name: min(each, _MIN_FORMATS) if name == _WIDEST else each for name, each in widths.items()}
        for name in _LESS_IMPORTANT[self.columns]:
            if _line_length(needed[each] for each in columns) > width:
                columns.remove(name)
        kept = [self.columns.index(name) for name in columns]
        rows = [[row[i] for i in kept] for row in self.rows]
        rest = width - _line_length(needed[name] for name in columns if name != _WIDEST) - _SEPARATOR
        limits = [max(rest, _MIN_FORMATS) if name == _WIDEST else None for name in columns]
        print(tabulate(rows, headers=columns, tablefmt="orgtbl", maxcolwidths=limits))

    def save(self, path: str | Path) -> None:
        """Write the table as a CSV file."""
        text = StringIO()
        csv.writer(text, lineterminator="\n").writerows([self.columns, *self.rows])
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        write_text(Path(path), text.getvalue())


def _line_length(widths: Iterable[int]) -> int:
    """Return the length of a line of a table with columns of these widths."""
    return sum(width + _SEPARATOR for width in widths) + 1


def summarize_quantization(
    original: MaseGraph, graph: MaseGraph, folder: Path | None
) -> tuple[SummaryTable, SummaryTable]:
    """Print what quantisation changed, by node and by type, write both tables to a folder, and return them."""
    nodes = _by_node(original, graph)
    tables = nodes, _by_type(nodes)
    for table, name in zip(tables, (TABLE_FILE, _HISTOGRAM_FILE), strict=True):
        table.print()
        if folder is not None:
            table.save(folder / name)
    return tables


def graph_iterator_compare_nodes(
    ori_graph: MaseGraph, graph: MaseGraph, save_path: str | Path | None = None, silent: bool = False
) -> pd.DataFrame:
    """Return a table with one row per node: its types in both graphs, and whether it has changed.

    A node has changed if it calls another layer or function, or the same one in other formats. The table is
    printed unless `silent`.
    """
    table = _by_node(ori_graph, graph)
    if not silent:
        table.print()
    if save_path is not None:
        table.save(save_path)
    return table.frame()


def graph_iterator_node_histogram(
    ori_graph: MaseGraph, graph: MaseGraph, save_path: str | Path | None = None
) -> pd.DataFrame:
    """Return and print a table with one row per original type: its op, and how many nodes were changed."""
    table = _by_type(_by_node(ori_graph, graph))
    table.print()
    if save_path is not None:
        table.save(save_path)
    return table.frame().set_index(_BY_TYPE[0])


def _by_node(original: MaseGraph, graph: MaseGraph) -> SummaryTable:
    rows = [_row(before, after) for before, after in _pairs(original, graph)]
    return SummaryTable("Nodes of the original and of the quantised graph", _BY_NODE, rows)


def _row(before: fx.Node | None, after: fx.Node | None) -> tuple[Any, ...]:
    """Return the row of a node; a graph without it has empty cells."""
    node = before if after is None else after
    assert node is not None, "every row has a node"
    names = ("" if each is None else each.name for each in (before, after))
    types = ("" if each is None else _type_name(each) for each in (before, after))
    changed = before is None or after is None or _callee(before) != _callee(after)
    formats = {} if after is None else _callee(after)[1]
    shown = ", ".join(f"{name.removesuffix('_0')} {each}" for name, each in formats.items())
    meta = node.meta.get("mase")
    if meta is not None and meta.annotated:
        kind = (meta.mase_type, meta.mase_op)
    elif after is None:
        kind = ("", "")
    else:
        raise ValueError(f"node '{node.name}' has no op yet; run add_common_metadata_analysis_pass first")
    return (*names, *kind, *types, changed, shown)


def _by_type(nodes: SummaryTable) -> SummaryTable:
    name, op, changed = (nodes.columns.index(column) for column in ("Original type", "Mase_OP", "Changed"))
    groups: dict[str, list[tuple[Any, ...]]] = {}
    for row in sorted(nodes.rows, key=itemgetter(name)):
        groups.setdefault(row[name], []).append(row)
    rows = []
    for each, group in groups.items():
        count = sum(row[changed] for row in group)
        rows.append((each, group[0][op], len(group), count, len(group) - count))
    return SummaryTable("Changes by original type", _BY_TYPE, rows)


def _pairs(ori_graph: MaseGraph, graph: MaseGraph) -> list[tuple[fx.Node | None, fx.Node | None]]:
    """Return the nodes of both graphs in pairs by name; None for nodes that were added or removed."""
    before = {node.name: node for node in ori_graph.fx_graph.nodes}
    after = {node.name: node for node in graph.fx_graph.nodes}
    if not any(before[name].op.startswith("call") for name in before.keys() & after.keys()):
        raise ValueError("only graphs of the same model can be compared: these have no call in common")
    gone = [name for name in before if name not in after]
    order = {name: i for i, name in enumerate(before)}
    pairs: list[tuple[fx.Node | None, fx.Node | None]] = []
    for name, node in after.items():
        while gone and name in order and order[gone[0]] < order[name]:
            pairs.append((before[gone.pop(0)], None))
        pairs.append((before.get(name), node))
    return pairs


def _type_name(node: fx.Node) -> str:
    """Return the class of a layer, the name of a function or method, else the node's target."""
    target = type(get_node_actual_target(node)) if node.op == "call_module" else node.target
    return str(getattr(target, "__name__", target))


def _callee(node: fx.Node) -> tuple[object, Mapping[str, Format]]:
    """Return what a node calls, and its formats."""
    target = get_node_actual_target(node) if node.op == "call_module" else node.target
    if isinstance(target, QuantizedCall):
        return target.target, target.formats
    if isinstance(target, QuantizedLayer):
        return type(target), target.formats
    return (type(target) if node.op == "call_module" else target), {}
