"""The columns that all tables of nodes begin with."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tabulate import tabulate

from chop.ir import NodeMeta

NODE_HEADERS = ("Node name", "Fx Node op", "Mase type", "Mase op")


def node_cells(meta: NodeMeta) -> list[str]:
    """A node's entries under `NODE_HEADERS`."""
    return [meta.node.name, meta.node.op, meta.mase_type, meta.mase_op]


def grid(rows: Iterable[Sequence[str]], headers: Sequence[str]) -> str:
    """A table with lines around its cells, which may be of several lines each."""
    return tabulate(rows, headers=headers, tablefmt="grid", disable_numparse=True)
