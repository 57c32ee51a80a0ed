"""Runs side by side: what they have in common, and where they differ."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from chop.display import numbers
from chop.reporting.view.formats_by_layer import PLAIN, formats_of
from chop.reporting.view.reading import DamagedError, flattened, is_number, tables_at
from chop.reporting.view.run_figures import ACCURACY, FIGURES, LOSS, Figure, When
from chop.reporting.view.run_record import Record

LEFT_OUT = ("measured", "confusion")
"""Of a summary: the one has rows of its own, the other is a picture."""


@dataclass(frozen=True)
class Cell:
    """What one run has in a row, and what lies between it and the first run."""

    text: str | None
    exact: str | None = None
    change: str = ""
    verdict: Literal["better", "worse", None] = None


@dataclass(frozen=True)
class Row:
    """The same thing of several runs."""

    title: str
    cells: Sequence[Cell]
    differs: bool


def figure_rows(records: Sequence[Record]) -> list[Row]:
    """The key figures, and those of the models before they were changed."""
    wanted: list[tuple[Figure, When]] = [(ACCURACY, "after"), (ACCURACY, "before"), (LOSS, "after")]
    wanted += [(figure, when) for figure in FIGURES[1:] for when in ("after", "before")]
    rows = [_figure_row(figure, when, records) for figure, when in wanted]
    return [row for row in rows if any(cell.text is not None for cell in row.cells)]


def option_rows(records: Sequence[Record]) -> list[Row]:
    """The options of the runs, by the keys of `run.toml`."""
    return _rows([dict(flattened(record.config)) for record in records], with_changes=False)


def summary_rows(records: Sequence[Record]) -> list[Row]:
    """Everything that the summaries tell."""
    return _rows([_told(record.summary) for record in records])


def format_rows(records: Sequence[Record]) -> tuple[list[Row], list[str]]:
    """Operands that are quantised in one of the runs, and what was wrong with their files."""
    found: list[dict[str, str]] = []
    problems = []
    for record in records:
        try:
            found.append(formats_of(record))
        except DamagedError as error:
            found.append({})
            problems.append(f"{record.name}: {error}")
    rows = _rows(found)
    return [row for row in rows if any(cell.text not in (None, PLAIN) for cell in row.cells)], problems


def _figure_row(figure: Figure, when: When, records: Sequence[Record]) -> Row:
    values = [figure.read(record, when) for record in records]
    title = f"{figure.title}, before" if when == "before" else figure.title
    return Row(title, [_figure_cell(figure, values[0], value) for value in values], _differ(values))


def _figure_cell(figure: Figure, first: float | None, value: float | None) -> Cell:
    if value is None:
        return Cell(None)
    if first is None or same(first, value):
        return Cell(figure.show(value), numbers.plain(value))
    return Cell(
        figure.show(value), numbers.plain(value), figure.change(first, value), _verdict(figure, first, value)
    )


def _verdict(figure: Figure, first: float, value: float) -> Literal["better", "worse", None]:
    if figure.better is None:
        return None
    return "better" if (value > first) == (figure.better == "more") else "worse"


def _rows(tables: Sequence[Mapping[str, Any]], with_changes: bool = True) -> list[Row]:
    """A row for each key that one of the tables has."""
    keys = dict.fromkeys(key for table in tables for key in table)
    return [_row(key, [table.get(key) for table in tables], with_changes) for key in keys]


def _row(key: str, values: Sequence[Any], with_changes: bool) -> Row:
    change = numbers.points if key.endswith("accuracy") else numbers.difference
    cells = [
        Cell(_text(value), change=change(values[0], value) if with_changes and _changed(values[0], value) else "")
        for value in values
    ]
    return Row(key, cells, _differ(values))


def _changed(first: object, value: object) -> bool:
    return is_number(first) and is_number(value) and not same(first, value)


def _told(summary: Mapping[str, Any]) -> dict[str, Any]:
    plain = {key: value for key, value in flattened(summary) if key.rpartition(".")[2] not in LEFT_OUT}
    for each in tables_at(summary, "measured"):
        plain |= {f"{each.get('pass')}.{each.get('what')}.{when}": each.get(when) for when in ("before", "after")}
    return plain


def _text(value: object) -> str | None:
    if value is None or isinstance(value, str):
        return value
    if is_number(value):
        return numbers.plain(value)
    try:
        return json.dumps(value, default=str, ensure_ascii=False)
    except (RecursionError, ValueError):
        return "too deep or too large to be shown"


def _differ(values: Sequence[object]) -> bool:
    return not all(same(values[0], value) for value in values[1:])


def same(first: object, second: object) -> bool:
    """Whether two values of a file are the same; NaN is the same as NaN, and 1 is not true."""
    both_nan = first != first and second != second
    return both_nan or (first == second and isinstance(first, bool) == isinstance(second, bool))
