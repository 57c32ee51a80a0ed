"""The kinds of things that `ch info` lists."""

from __future__ import annotations

from collections.abc import Mapping

from chop.display.launcher import launcher
from chop.info.datasets import dataset_page, dataset_table
from chop.info.formats import format_page, format_table
from chop.info.models import model_page, model_table
from chop.info.ops import op_page, op_table
from chop.info.page import Kind, Table
from chop.info.passes import pass_page, pass_table

KINDS: Mapping[str, Kind] = {
    "models": Kind(model_table, model_page),
    "datasets": Kind(dataset_table, dataset_page),
    "formats": Kind(format_table, format_page),
    "passes": Kind(pass_table, pass_page),
    "ops": Kind(op_table, op_page),
}


def describe(kind: str | None, name: str | None = None) -> str:
    """Return the table of a kind, or the page of one of its members, as text; None lists the kinds."""
    if kind is None:
        rows = [(each, len(of.table().rows), f"{launcher()} info {each}") for each, of in KINDS.items()]
        return Table(("kind", "entries", "to list them"), rows).render()
    chosen = KINDS[kind]
    return chosen.table().render() if name is None else chosen.page(name).render()
