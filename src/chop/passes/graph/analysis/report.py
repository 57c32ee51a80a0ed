"""Print a graph, and tables of its nodes: metadata, shapes, types."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from pprint import pformat
from typing import Literal

from tabulate import tabulate
from torch import Tensor
from torch.utils import _pytree as pytree

from chop.display.html import shown_in_notebook
from chop.ir import MaseGraph, NodeMeta
from chop.ir.graph.meta import get_node_actual_target, plain
from chop.passes.base import NoArgs, PassResult, register_pass

NODE_HEADERS = ("Node name", "Fx Node op", "Mase type", "Mase op")


def node_cells(meta: NodeMeta) -> list[str]:
    """Return a node's cells for the columns `NODE_HEADERS`."""
    return [meta.node.name, meta.node.op, meta.mase_type, meta.mase_op]


def print_bordered_table(rows: Sequence[Sequence[str]], headers: Sequence[str]) -> str:
    """Print and return a table with borders, whose cells may have several lines; a notebook shows it as HTML."""
    table = tabulate(rows, headers=headers, tablefmt="grid", disable_numparse=True)
    if not shown_in_notebook(headers, rows):
        print(table)
    return table


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
    overview = {op: counted[op] for op in _FX_OPS}
    layers = [get_node_actual_target(node) for node in nodes if node.op == "call_module"]
    report = f"{graph.fx_graph}\nNetwork overview:\n{overview}\nLayer types:\n{layers}"
    if args.file_name is None:
        print(report)
    else:
        args.file_name.parent.mkdir(parents=True, exist_ok=True)
        args.file_name.write_text(report + "\n", encoding="utf-8")
    return graph, {}


@register_pass("report_node_type", kind="analysis", prints=True)
def report_node_type_analysis_pass(graph: MaseGraph, args: NoArgs) -> PassResult:
    """Print a table of the nodes' fx ops, MASE types and MASE ops."""
    print_bordered_table([node_cells(meta) for meta in graph.annotated_metas()], NODE_HEADERS)
    return graph, {}


@register_pass("report_node_shape", kind="analysis", prints=True)
def report_node_shape_analysis_pass(graph: MaseGraph, args: NoArgs) -> PassResult:
    """Print a table of the nodes' input and output shapes, one line per tensor: `weight: [5, 16]`."""
    rows = []
    for meta in graph.annotated_metas():
        shapes = ("\n".join(f"{name}: {t.shape}" for name, t in each.items()) for each in (meta.args, meta.results))
        rows.append([*node_cells(meta), *shapes])
    print_bordered_table(rows, (*NODE_HEADERS, "Input shapes", "Output shapes"))
    return graph, {}


_PARTS = ("common", "hardware", "software")
MAX_VALUES_SHOWN = 64
"""Elements of a tensor that is shown; of larger ones, the table has their number."""


@dataclass(frozen=True)
class ReportNodeMetaParamArgs:
    """Arguments of `report_node_meta_param`."""

    which: tuple[Literal["all", "common", "software", "hardware"], ...] = ("all",)
    """The parts of the metadata to show."""
    save_path: Path | None = None
    """A file to write the printed table to as well."""


@register_pass("report_node_meta_param", kind="analysis", prints=True)
def report_node_meta_param_analysis_pass(graph: MaseGraph, args: ReportNodeMetaParamArgs) -> PassResult:
    """Print a table of `node.meta["mase"].parameters` of every node, one column per part."""
    parts = [part for part in _PARTS if part in args.which or "all" in args.which]
    rows = []
    for meta in graph.annotated_metas():
        parameters = pytree.tree_map_only(Tensor, _shown_tensor, plain(meta.parameters))
        rows.append([*node_cells(meta), *(pformat(parameters[part], sort_dicts=False) for part in parts)])
    headers = (*NODE_HEADERS, *(f"{part.capitalize()} Param" for part in parts))
    table = print_bordered_table(rows, headers)
    if args.save_path is not None:
        args.save_path.parent.mkdir(parents=True, exist_ok=True)
        args.save_path.write_text(table + "\n", encoding="utf-8")
    return graph, {}


@dataclass(frozen=True)
class _LargeTensor:
    """A tensor whose values are left out."""

    num_values: int

    def __repr__(self) -> str:
        return f"tensor of {self.num_values:,} values"


def _shown_tensor(tensor: Tensor) -> Tensor | _LargeTensor:
    return tensor if tensor.numel() <= MAX_VALUES_SHOWN else _LargeTensor(tensor.numel())
