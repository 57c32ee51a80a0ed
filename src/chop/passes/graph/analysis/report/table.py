"""The first columns of all tables of nodes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tabulate import tabulate

from chop.ir import NodeMeta

NODE_HEADERS = ("Node name", "Fx Node op", "Mase type", "Mase op")


def node_cells(meta: NodeMeta) -> list[str]:
    """Return a node's cells for the columns `NODE_HEADERS`."""
    return [meta.node.name, meta.node.op, meta.mase_type, meta.mase_op]


def bordered_table(rows: Iterable[Sequence[str]], headers: Sequence[str]) -> str:
    """Return a table with borders, whose cells may have several lines."""
    return tabulate(rows, headers=headers, tablefmt="grid", disable_numparse=True)
