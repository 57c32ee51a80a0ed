"""Print the metadata of each node."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from pprint import pformat
from typing import Any, Literal

from torch import Tensor
from torch.utils import _pytree as pytree

from chop.ir import MaseGraph
from chop.ir.graph.dict_view import plain
from chop.passes.base import PassResult, register_pass
from chop.passes.graph.analysis.report.table import NODE_HEADERS, bordered_table, node_cells, print_bordered_table

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
        parameters = _without_large_tensors(plain(meta.parameters))
        rows.append([*node_cells(meta), *(pformat(parameters[part], sort_dicts=False) for part in parts)])
    headers = (*NODE_HEADERS, *(f"{part.capitalize()} Param" for part in parts))
    print_bordered_table(rows, headers)
    if args.save_path is not None:
        args.save_path.parent.mkdir(parents=True, exist_ok=True)
        args.save_path.write_text(bordered_table(rows, headers) + "\n", encoding="utf-8")
    return graph, {}


@dataclass(frozen=True)
class _LargeTensor:
    """A tensor whose values are left out."""

    num_values: int

    def __repr__(self) -> str:
        return f"tensor of {self.num_values:,} values"


def _without_large_tensors(value: Any) -> Any:
    return pytree.tree_map_only(
        Tensor, lambda each: each if each.numel() <= MAX_VALUES_SHOWN else _LargeTensor(each.numel()), value
    )
