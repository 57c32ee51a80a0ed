"""The page with all runs of a project."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial
from pathlib import Path

from chop.display import numbers
from chop.display.launcher import launcher
from chop.display.numbers import counted
from chop.reporting.view.columns import COLUMNS, PARAMETERS, OptionColumn, RunFigure, differing_options
from chop.reporting.view.html import (
    NOTHING,
    Html,
    element,
    file_address,
    join,
    link,
    page,
    run_address,
    scrolling,
    synthetic_badge,
)
from chop.reporting.view.run_record import MAX_RECORDS_KEPT, RunRecord
from chop.reporting.view.run_selection import (
    PAGE_SIZE,
    RunSelection,
    SortValues,
    chosen_elsewhere,
    column_head,
    page_buttons,
    run_box,
    toolbar,
)

NAME_COLUMN, START_COLUMN = "run", "started"
"""The first column and the last one."""
TEXT_COLUMNS: Mapping[str, Callable[[RunRecord], str | None]] = {
    "action": lambda record: record.action,
    "model": lambda record: record.model and Path(record.model).name,
    "data": lambda record: record.data and Path(record.data).name,
}
"""Columns with one word. After the name come those in which runs differ, options that differ, and key figures."""
MAX_SPLIT = 3
"""Letters of the split beside a value: `val.`"""
NEWEST_FIRST = RunSelection()


def overview_page(root: Path, records: Sequence[RunRecord], selection: RunSelection = NEWEST_FIRST) -> Html:
    """Return the page with the table of all runs, newest first; with many runs, a part of them.

    The script sorts and filters a table that is complete; else the server does.
    """
    lead = f"{root} · {counted(len(records), 'run')}"
    if records:
        parts = _parts(records, selection if len(records) > PAGE_SIZE else None)
        content = element("form", {"action": "/compare", "method": "get"}, *parts)
    else:
        command = element("code", None, f"{launcher()} train jsc-tiny jsc")
        content = element("p", {"class": "plain"}, "There are no runs yet. To start one: ", command)
    return page("Runs", lead, content)


def _parts(records: Sequence[RunRecord], selection: RunSelection | None) -> list[Html | None]:
    """Return the toolbar and the table; with a selection only one page of it, and buttons for the others."""
    texts = tuple(
        name for name, read in TEXT_COLUMNS.items() if len({read(record) for record in records} - {None}) > 1
    )
    known = set().union(*(_known_figures(record) for record in records))
    figures = tuple(figure for figure in COLUMNS if figure.figure.name in known)
    options, num_others = differing_options(tuple(records))
    differ = "option differs" if num_others == 1 else "options differ"
    note = element("p", {"class": "command"}, f"{num_others} more {differ} between runs: compare them.")
    if selection is None:
        rows = [_row(record, texts, options, figures) for record in records]
        return [
            toolbar(None, ""),
            _table(rows, _heads(texts, options, figures, None)),
            note if num_others else None,
        ]
    found = selection.matching(records, lambda record: _row(record, texts, options, figures))
    found = selection.sorted(found, _sort_values(options, figures))
    last = max(1, math.ceil(len(found) / PAGE_SIZE))
    page = min(selection.page, last)
    shown = found[PAGE_SIZE * (page - 1) : PAGE_SIZE * page]
    rows = [_row(record, texts, options, figures, record.name in selection.chosen) for record in shown]
    names = {record.name for record in records} - {record.name for record in shown}
    elsewhere = [name for name in selection.chosen if name in names]
    return [
        toolbar(selection, f"{len(found):,} of {len(records):,}"),
        chosen_elsewhere(elsewhere),
        _table(rows, _heads(texts, options, figures, selection)),
        page_buttons(page, last),
        note if num_others else None,
    ]


def _sort_values(options: Sequence[OptionColumn], figures: Sequence[RunFigure]) -> SortValues:
    """Return how the value of a run is found by the name of a column, as in `data-value` of its cells."""
    columns: SortValues = {
        NAME_COLUMN: lambda record: record.name,
        **TEXT_COLUMNS,
        START_COLUMN: lambda record: record.started.isoformat(),
    }
    texts = {column.key: column.text for column in options}
    return {**columns, **texts, **{figure.figure.name: partial(_finite, figure) for figure in figures}}


def _finite(figure: RunFigure, record: RunRecord) -> float | None:
    value = figure.read(record, "after")
    return value if value is not None and math.isfinite(value) else None


def _table(rows: Sequence[Html], heads: Sequence[Html]) -> Html:
    caption = element("caption", {"class": "unseen"}, "Runs; the header buttons sort the rows")
    head = element("thead", None, element("tr", None, heads))
    return scrolling(
        "Table of runs", element("table", {"id": "table"}, caption, head, element("tbody", None, rows))
    )


def _heads(
    texts: Sequence[str],
    options: Sequence[OptionColumn],
    figures: Sequence[RunFigure],
    selection: RunSelection | None,
) -> list[Html]:
    return [
        element("th", {"scope": "col"}, element("span", {"class": "unseen"}, "compare")),
        *(column_head(selection, word, word, "text") for word in (NAME_COLUMN, *texts)),
        *(column_head(selection, each.key, each.title.replace("_", " "), "option", each.key) for each in options),
        *(column_head(selection, each.figure.name, each.title, "figure", each.help, "number") for each in figures),
        *(column_head(selection, word, word, "text") for word in TEXT_COLUMNS if word not in texts),
        column_head(selection, START_COLUMN, START_COLUMN, "text"),
    ]


@lru_cache(maxsize=MAX_RECORDS_KEPT)
def _known_figures(record: RunRecord) -> frozenset[str]:
    return frozenset(each.figure.name for each in COLUMNS if each.read(record, "after") is not None)


@lru_cache(maxsize=MAX_RECORDS_KEPT)
def _row(
    record: RunRecord,
    texts: tuple[str, ...],
    options: tuple[OptionColumn, ...],
    figures: tuple[RunFigure, ...],
    is_chosen: bool = False,
) -> Html:
    name = element("th", {"scope": "row", "data-value": record.name}, _name(record))
    started = f"{record.started:%Y-%m-%d %H:%M}"
    about_start = f"{record.started:%H:%M:%S}{' (file time)' if record.has_file_time else ''}"
    words = {column: _text_cell(record, column) for column in TEXT_COLUMNS}
    cells = [
        *(words[column] for column in texts),
        *(_option_cell(column.text(record)) for column in options),
        *(_figure_cell(figure, record) for figure in figures),
        *(cell for column, cell in words.items() if column not in texts),
        element(
            "td",
            {"class": "text started", "data-value": record.started.isoformat(), "title": about_start},
            element("time", {"datetime": record.started.isoformat()}, started),
        ),
    ]
    return element("tr", None, element("td", None, run_box(record.name, is_chosen)), name, cells)


def _name(record: RunRecord) -> Html:
    """Return the name of a run and the notes on it, in one line that is cut where it does not fit.

    Errors have lines of their own.
    """
    report = link(file_address(record.name, record.folder.report.name), "report") if record.has_report else None
    errors = [element("span", {"class": "note error"}, error) for error in record.errors]
    note = element("span", {"class": "note", "title": record.note}, record.note) if record.note else None
    address = link(run_address(record.name), record.name)
    return join(element("div", {"class": "line", "title": record.name}, address, report, note), errors)


def _text_cell(record: RunRecord, column: str) -> Html:
    text = TEXT_COLUMNS[column](record)
    if text is None:
        return element("td", {"class": "text nothing"}, NOTHING)
    about, badge = None, None
    if column == "model":
        value = PARAMETERS.read(record, "after")
        parameters = None if value is None else f"{PARAMETERS.figure.text(value)} parameters"
        about = ", ".join(filter(None, (record.model, parameters)))
    elif column == "data":
        about, badge = record.data_title or record.data, synthetic_badge() if record.has_synthetic_data else None
    return element(
        "td", {"class": "text", "data-value": text, "title": about if about != text else None}, text, badge
    )


def _option_cell(text: str | None) -> Html:
    if text is None:
        return element("td", {"class": "option nothing"}, NOTHING)
    return element("td", {"class": "option", "data-value": text, "title": text}, text)


def _figure_cell(figure: RunFigure, record: RunRecord) -> Html:
    """Return a value in one line; what it was before, and on which rows it was measured, is in the tooltip."""
    value, rows = figure.read(record, "after"), figure.rows_of(record)
    if value is None:
        return element("td", {"class": "figure nothing"}, NOTHING)
    sort_key = repr(value) if math.isfinite(value) else None  # others come last
    about = ", ".join(filter(None, (numbers.exact(value), rows and f"on {rows}", figure.text_before(record))))
    attributes = {"class": "figure", "data-value": sort_key, "title": about}
    split = element("span", {"class": "note"}, f"{rows[:MAX_SPLIT]}.") if rows else None
    return element("td", attributes, split, figure.figure.text(value))
