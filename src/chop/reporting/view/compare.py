"""Runs side by side: the rows of their comparison, and which of them differ."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from chop.config import ACTIONS
from chop.config.settings import default_options
from chop.display import numbers
from chop.files import CorruptFileError
from chop.ir.graph.storage.save_load import GRAPH_FILE
from chop.ir.graph.storage.values import decode_format
from chop.passes.graph.transforms.quantize.summary import TABLE_FILE
from chop.reporting.view.columns import ACCURACY, ALL_FIGURES, LOSS, RunFigure, When
from chop.reporting.view.nested_tables import flatten, is_number, tables_at, value_at
from chop.reporting.view.run_record import RunRecord
from chop.reporting.view.served_files import read_csv, read_table

NOT_QUANTIZED = "float(32)"


def formats_by_operand(record: RunRecord) -> dict[str, str]:
    """Return the format of each operand, as `{"fc1.weight": "integer(8, 4)"}`; {} if the run has no graph.

    If only the table of layers exists, return the type of each layer instead.
    """
    folder = record.folder
    nodes = value_at(read_table(folder, folder.graph / GRAPH_FILE), "metadata")
    if not isinstance(nodes, Mapping):
        rows = read_csv(folder, folder.transform / TABLE_FILE)
        names = {"New name", "Quantized type"}
        return {row["New name"]: row["Quantized type"] for row in rows if names <= row.keys()}
    operands = {node: value_at(meta, "args") for node, meta in nodes.items()}
    return {
        f"{node}.{operand}": format_text(value_at(tensor, "format"))
        for node, tensors in operands.items()
        if isinstance(tensors, Mapping)
        for operand, tensor in tensors.items()
    }


def format_text(stored: object) -> str:
    """Return a stored format as text."""
    if not isinstance(stored, Mapping):
        return "?"
    try:
        return str(decode_format(stored))
    except (ValueError, LookupError, TypeError):  # the format of a plug-in that is not loaded
        return json.dumps(dict(stored))


SHOWN_ELSEWHERE = ("measured", "confusion")
"""Keys of a summary that have their own rows or a plot."""

Verdict = Literal["better", "worse"]


@dataclass(frozen=True)
class ComparedCell:
    """The value of one run in a row, and its difference to the first run."""

    text: str | None
    exact: str | None = None
    change: str = ""
    verdict: Verdict | None = None
    rows: str | None = None
    """The rows that the value was measured on, if not those of the test split."""


@dataclass(frozen=True)
class ComparedRow:
    """The same property of several runs."""

    title: str
    cells: Sequence[ComparedCell]
    differs: bool


def figure_rows(records: Sequence[RunRecord]) -> list[ComparedRow]:
    """Return the key figures of the runs, and those of their models before they were changed."""
    wanted: list[tuple[RunFigure, When]] = [(ACCURACY, "after"), (ACCURACY, "before"), (LOSS, "after")]
    wanted += [(figure, when) for figure in ALL_FIGURES[2:] for when in ("after", "before")]
    rows = [_figure_row(figure, when, records) for figure, when in wanted]
    return [row for row in rows if any(cell.text is not None for cell in row.cells)]


def option_rows(records: Sequence[RunRecord]) -> list[ComparedRow]:
    """Return the options of the runs, by the keys of `run.toml`."""
    return _rows([dict(flatten(record.config)) for record in records], with_changes=False)


def chosen_option_rows(record: RunRecord) -> tuple[list[ComparedRow], list[ComparedRow]]:
    """Return the options of a run that differ from their defaults, and the others."""
    config_class = ACTIONS.get(record.action or "")
    defaults = {} if config_class is None else dict(flatten(default_options(config_class)))
    rows = option_rows([record])
    values = dict(flatten(record.config))
    chosen = [
        row for row in rows if row.title not in defaults or not is_same(values[row.title], defaults[row.title])
    ]
    return chosen, [row for row in rows if row not in chosen]


def summary_rows(records: Sequence[RunRecord]) -> list[ComparedRow]:
    """Return all values in the summaries."""
    with_changes = len({record.test_rows for record in records}) == 1
    return _rows([_summary_values(record.summary) for record in records], with_changes)


def format_rows(records: Sequence[RunRecord]) -> tuple[list[ComparedRow], list[str]]:
    """Return the operands that are quantised in at least one run, and errors about corrupt files."""
    found: list[dict[str, str]] = []
    errors = []
    for record in records:
        try:
            found.append(formats_by_operand(record))
        except CorruptFileError as error:
            found.append({})
            errors.append(f"{record.name}: {error}")
    rows = _rows(found)
    quantized = [row for row in rows if any(cell.text not in (None, NOT_QUANTIZED) for cell in row.cells)]
    return quantized, errors


def _figure_row(figure: RunFigure, when: When, records: Sequence[RunRecord]) -> ComparedRow:
    values = [figure.read(record, when) for record in records]
    title = f"{figure.title}, before" if when == "before" else figure.title
    first = None if figure.rows_of(records[0]) else values[0]
    cells = [
        _figure_cell(figure, first if is_comparable(figure, records[0], record) else None, value, record)
        for value, record in zip(values, records, strict=True)
    ]
    return ComparedRow(title, cells, _differ(values))


def is_comparable(figure: RunFigure, first: RunRecord, second: RunRecord) -> bool:
    """Whether a figure of two runs was measured on the same rows, or does not depend on them."""
    return not figure.measured or first.test_rows == second.test_rows


def _figure_cell(figure: RunFigure, first: float | None, value: float | None, record: RunRecord) -> ComparedCell:
    """Return the value of a run, with its difference to the first run if both were measured on the test split."""
    if value is None:
        return ComparedCell(None)
    text, exact, rows = figure.figure.text(value), numbers.exact(value), figure.rows_of(record)
    if rows or first is None or is_same(first, value):
        return ComparedCell(text, exact, rows=rows)
    verdict: Verdict | None = None
    if figure.figure.better is not None:
        verdict = "better" if (value > first) == (figure.figure.better == "higher") else "worse"
    return ComparedCell(text, exact, figure.figure.change(first, value), verdict)


def _rows(tables: Sequence[Mapping[str, Any]], with_changes: bool = True) -> list[ComparedRow]:
    keys = dict.fromkeys(key for table in tables for key in table)
    return [_row(key, [table.get(key) for table in tables], with_changes) for key in keys]


def _row(key: str, values: Sequence[Any], with_changes: bool) -> ComparedRow:
    change, first = numbers.change_in_points if key.endswith("accuracy") else numbers.relative_change, values[0]
    cells = []
    for value in values:
        has_changed = is_number(first) and is_number(value) and not is_same(first, value)
        text = change(first, value) if with_changes and has_changed else ""
        cells.append(ComparedCell(_text(value), change=text))
    return ComparedRow(key, cells, _differ(values))


def _summary_values(summary: Mapping[str, Any]) -> dict[str, Any]:
    values = {key: value for key, value in flatten(summary) if key.rpartition(".")[2] not in SHOWN_ELSEWHERE}
    for each in tables_at(summary, "measured"):
        values |= {f"{each.get('pass')}.{each.get('what')}.{when}": each.get(when) for when in ("before", "after")}
    return values


def _text(value: object) -> str | None:
    if value is None or isinstance(value, str):
        return value
    if is_number(value):
        return numbers.exact(value)
    try:
        return json.dumps(value, default=str, ensure_ascii=False)
    except (RecursionError, ValueError):
        return "too deeply nested or too large to show"


def _differ(values: Sequence[object]) -> bool:
    return not all(is_same(values[0], value) for value in values[1:])


def is_same(first: object, second: object) -> bool:
    """Return whether two values of a file are equal; NaN equals NaN, and 1 does not equal true."""
    both_nan = first != first and second != second
    return both_nan or (first == second and isinstance(first, bool) == isinstance(second, bool))
