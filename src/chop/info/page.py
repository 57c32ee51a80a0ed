"""Tables and pages: what is told of a kind of things, and of one thing."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from tabulate import tabulate


@dataclass(frozen=True)
class Table:
    """Rows under headers; a column that is empty everywhere is left out."""

    headers: tuple[str, ...]
    rows: Sequence[Sequence[object]]

    def render(self) -> str:
        """The table as text for a terminal."""
        headers, *rows = self._cells()
        return tabulate(rows, headers, tablefmt="simple", disable_numparse=True, colalign=["left"] * len(headers))

    def markdown(self) -> str:
        """The table as Markdown, not padded, so that a new row changes no other line."""
        headers, *rows = self._cells()
        lines = [headers, ["---"] * len(headers), *([escape(cell) for cell in row] for row in rows)]
        return "\n".join(f"| {' | '.join(line)} |" for line in lines)

    def _cells(self) -> list[list[str]]:
        rows = [[_cell(value) for value in row] for row in self.rows]
        used = [i for i, _ in enumerate(self.headers) if any(row[i] for row in rows)]
        return [[row[i] for i in used] for row in (self.headers, *rows)]


@dataclass(frozen=True)
class Page:
    """All that is known of one thing."""

    title: str
    text: str
    facts: Mapping[str, object]
    tables: Mapping[str, Table]
    drawing: str = ""

    def render(self) -> str:
        width = max((len(name) for name in self.facts), default=0)
        facts = [f"{name:<{width}}  {_cell(value)}" for name, value in self.facts.items() if _cell(value)]
        parts = [self.title, self.text, "\n".join(facts), self.drawing]
        parts += [f"{title}:\n{table.render()}" for title, table in self.tables.items() if table.rows]
        return "\n\n".join(part for part in parts if part)


@dataclass(frozen=True)
class Kind:
    """A kind of things with names: the table of all, and the page of one."""

    table: Callable[[], Table]
    page: Callable[[str], Page]


def summary(thing: object) -> str:
    """The first line of a docstring of its own, not one that it inherits."""
    lines = documentation(thing).splitlines()
    return lines[0] if lines else ""


def documentation(thing: object) -> str:
    text = inspect.cleandoc(thing.__doc__ or "") if thing is not None else ""
    # A dataclass without a docstring gets its signature for one.
    return "" if isinstance(thing, type) and text.startswith(f"{thing.__name__}(") else text


def _cell(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}" if abs(value) >= 10_000 else str(value)
    if isinstance(value, float):
        return f"{value:.6g}"
    if isinstance(value, Iterable) and not isinstance(value, str):
        return ", ".join(_cell(each) for each in value)
    return str(value)


def escape(text: str) -> str:
    """Text in which nothing but what stands between backticks is taken for Markdown."""
    parts = text.replace("|", "\\|").split("`")
    return "`".join(part.replace("*", "\\*") if i % 2 == 0 else part for i, part in enumerate(parts))
