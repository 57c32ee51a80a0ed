"""Tables that list things of one kind, and pages that describe one of them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import cast

from tabulate import tabulate

from chop.config import INFO_KINDS
from chop.display.html import html_table
from chop.display.launcher import launcher
from chop.display.numbers import table_number
from chop.display.tables import column_limits


@dataclass(frozen=True)
class Listing:
    """Rows under headers; an empty column is left out."""

    headers: tuple[str, ...]
    rows: Sequence[Sequence[object]]

    def render(self) -> str:
        """Return the table as text for a terminal."""
        headers, *rows = self._cells()
        limits = column_limits(headers, rows)
        align = ["left"] * len(headers)
        return tabulate(rows, headers, "simple", disable_numparse=True, colalign=align, maxcolwidths=limits)

    def _repr_html_(self) -> str:
        headers, *rows = self._cells()
        return html_table(headers, rows)

    def markdown(self) -> str:
        """Return the table as Markdown, without padding, so that a new row changes no other line."""
        headers, *rows = self._cells()
        lines = [headers, ["---"] * len(headers), *([escape(cell) for cell in row] for row in rows)]
        return "\n".join(f"| {' | '.join(line)} |" for line in lines)

    def _cells(self) -> list[list[str]]:
        rows = [[_cell(value) for value in row] for row in self.rows]
        used = [i for i, _ in enumerate(self.headers) if any(row[i] for row in rows)]
        return [[row[i] for i in used] for row in (self.headers, *rows)]


@dataclass(frozen=True)
class Page:
    """The description of one thing: text, facts and tables."""

    title: str
    text: str
    facts: Mapping[str, object]
    tables: Mapping[str, Listing]
    drawing: str = ""

    def render(self) -> str:
        """Return the page as text for a terminal."""
        width = max((len(name) for name in self.facts), default=0)
        facts = [f"{name:<{width}}  {_cell(value)}" for name, value in self.facts.items() if _cell(value)]
        parts = [self.title, self.text, "\n".join(facts), self.drawing]
        parts += [f"{title}:\n{table.render()}" for title, table in self.tables.items() if table.rows]
        return "\n\n".join(part for part in parts if part)


@dataclass(frozen=True)
class Kind:
    """A kind of named things: a table of all, and a page for each."""

    table: Callable[[], Listing]
    page: Callable[[str], Page]


def find_kind(name: str) -> Kind:
    """Return a kind. Its module is imported now: formats are listed without importing passes."""
    return cast("Kind", import_module(f"chop.info.{name}").KIND)


def describe(kind: str | None, name: str | None = None) -> str:
    """Return the table of a kind, or the page of one of its members, as text; None lists the kinds."""
    if kind is None:
        rows = [(each, len(find_kind(each).table().rows), f"{launcher()} info {each}") for each in INFO_KINDS]
        return Listing(("kind", "entries", "to list them"), rows).render()
    chosen = find_kind(kind)
    return chosen.table().render() if name is None else chosen.page(name).render()


def summary(thing: object) -> str:
    """Return the first line of the docstring of a thing."""
    lines = documentation(thing).splitlines()
    return lines[0] if lines else ""


def documentation(thing: object) -> str:
    """Return the docstring of a thing, without indentation; empty if it has none."""
    text = inspect.cleandoc(thing.__doc__ or "") if thing is not None else ""
    # The docstring that `dataclass` generates is the signature.
    return "" if isinstance(thing, type) and text.startswith(f"{thing.__name__}(") else text


def _cell(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float):
        return table_number(value, digits=6)
    if isinstance(value, Iterable) and not isinstance(value, str):
        return ", ".join(_cell(each) for each in value)
    return str(value)


def escape(text: str) -> str:
    """Escape the Markdown characters of a text, except between backticks."""
    parts = text.replace("|", "\\|").split("`")
    return "`".join(part.replace("*", "\\*") if i % 2 == 0 else part for i, part in enumerate(parts))
