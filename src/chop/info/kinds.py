"""The kinds of things that `ch info` lists, each described by the module of this folder with its name."""

from __future__ import annotations

from importlib import import_module
from typing import cast

from chop.config import INFO_KINDS
from chop.display.launcher import launcher
from chop.info.page import Kind, Table


def find_kind(name: str) -> Kind:
    """Return a kind. Its module is imported now: formats are listed without importing passes."""
    return cast("Kind", import_module(f"chop.info.{name}").KIND)


def describe(kind: str | None, name: str | None = None) -> str:
    """Return the table of a kind, or the page of one of its members, as text; None lists the kinds."""
    if kind is None:
        rows = [(each, len(find_kind(each).table().rows), f"{launcher()} info {each}") for each in INFO_KINDS]
        return Table(("kind", "entries", "to list them"), rows).render()
    chosen = find_kind(kind)
    return chosen.table().render() if name is None else chosen.page(name).render()
