"""The first columns of all tables of nodes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tabulate import tabulate

from chop.display.html import shown_in_notebook
from chop.ir import NodeMeta

NODE_HEADERS = ("Node name", "Fx Node op", "Mase type", "Mase op")


def node_cells(meta: NodeMeta) -> list[str]:
    """Return a node's cells for the columns `NODE_HEADERS`."""
    return [meta.node.name, meta.node.op, meta.mase_type, meta.mase_op]


def print_bordered_table(rows: Sequence[Sequence[str]], headers: Sequence[str]) -> None:
    """Print a table with borders; in a notebook, show it as HTML."""
    if not shown_in_notebook(headers, rows):
        print(bordered_table(rows, headers))


def bordered_table(rows: Iterable[Sequence[str]], headers: Sequence[str]) -> str:
    """Return a table with borders, whose cells may have several lines."""
    return tabulate(rows, headers=headers, tablefmt="grid", disable_numparse=True)
