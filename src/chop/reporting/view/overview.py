"""The page with all runs of a project."""

from __future__ import annotations

import math
from collections.abc import Sequence
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

TEXT_COLUMNS, START_COLUMN = ("run", "action", "model", "data"), "started"
"""The first columns and the last one. Between them are the key figures, and options that differ."""
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
    known = set().union(*(_known_figures(record) for record in records))
    figures = tuple(figure for figure in COLUMNS if figure.figure.name in known)
    options, num_others = differing_options(tuple(records))
    differ = "option differs" if num_others == 1 else "options differ"
    note = element("p", {"class": "command"}, f"{num_others} more {differ} between runs: compare them.")
    if selection is None:
        rows = [_row(record, options, figures) for record in records]
        return [toolbar(None, ""), _table(rows, _heads(options, figures, None)), note if num_others else None]
    found = selection.matching(records, lambda record: _row(record, options, figures))
    found = selection.sorted(found, _sort_values(options, figures))
    last = max(1, math.ceil(len(found) / PAGE_SIZE))
    page = min(selection.page, last)
    shown = found[PAGE_SIZE * (page - 1) : PAGE_SIZE * page]
    rows = [_row(record, options, figures, record.name in selection.chosen) for record in shown]
    names = {record.name for record in records} - {record.name for record in shown}
    elsewhere = [name for name in selection.chosen if name in names]
    return [
        toolbar(selection, f"{len(found):,} of {len(records):,}"),
        chosen_elsewhere(elsewhere),
        _table(rows, _heads(options, figures, selection)),
        page_buttons(page, last),
        note if num_others else None,
    ]


def _sort_values(options: Sequence[OptionColumn], figures: Sequence[RunFigure]) -> SortValues:
    """Return how the value of a run is found by the name of a column, as in `data-value` of its cells."""
    columns: SortValues = {
        "run": lambda record: record.name,
        "action": lambda record: record.action,
        "model": lambda record: record.model and Path(record.model).name,
        "data": lambda record: record.data and Path(record.data).name,
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
    options: Sequence[OptionColumn], figures: Sequence[RunFigure], selection: RunSelection | None
) -> list[Html]:
    return [
        element("th", {"scope": "col"}, element("span", {"class": "unseen"}, "compare")),
        *(column_head(selection, word, word, "text") for word in TEXT_COLUMNS),
        *(column_head(selection, each.figure.name, each.title, "figure", each.help, "number") for each in figures),
        *(column_head(selection, each.key, each.title.replace("_", " "), "option", each.key) for each in options),
        column_head(selection, START_COLUMN, START_COLUMN, "text"),
    ]


@lru_cache(maxsize=MAX_RECORDS_KEPT)
def _known_figures(record: RunRecord) -> frozenset[str]:
    return frozenset(each.figure.name for each in COLUMNS if each.read(record, "after") is not None)


@lru_cache(maxsize=MAX_RECORDS_KEPT)
def _row(
    record: RunRecord,
    options: tuple[OptionColumn, ...],
    figures: tuple[RunFigure, ...],
    is_chosen: bool = False,
) -> Html:
    name = element("th", {"scope": "row", "data-value": record.name}, _name(record))
    value = PARAMETERS.read(record, "after")
    parameters = None if value is None else f"{PARAMETERS.figure.text(value)} parameters"
    about_model = ", ".join(filter(None, (record.model, parameters))) or None
    cells = [
        _text_cell(record.action),
        _text_cell(record.model and Path(record.model).name, about_model),
        _text_cell(
            record.data and Path(record.data).name,
            record.data_title or record.data,
            synthetic_badge() if record.has_synthetic_data else None,
        ),
        *(_figure_cell(figure, record) for figure in figures),
        *(_option_cell(column.text(record)) for column in options),
        element(
            "td",
            {"class": "text started", "data-value": record.started.isoformat()},
            element("time", {"datetime": record.started.isoformat()}, f"{record.started:%Y-%m-%d}"),
            element("span", {"class": "note"}, f"{record.started:%H:%M:%S}"),
            element("span", {"class": "note"}, "(file time)") if record.has_file_time else None,
        ),
    ]
    return element("tr", None, element("td", None, run_box(record.name, is_chosen)), name, cells)


def _name(record: RunRecord) -> Html:
    report = link(file_address(record.name, record.folder.report.name), "report") if record.has_report else None
    about = join(report, " · " if report and record.note else None, record.note)
    notes = [element("span", {"class": "note"}, about)] if about else []
    notes += [element("span", {"class": "note error"}, error) for error in record.errors]
    return join(link(run_address(record.name), record.name), notes)


def _text_cell(text: str | None, tooltip: str | None = None, badge: Html | None = None) -> Html:
    if text is None:
        return element("td", {"class": "text nothing"}, NOTHING)
    attributes = {"class": "text", "data-value": text, "title": tooltip if tooltip != text else None}
    return element("td", attributes, text, badge)


def _option_cell(text: str | None) -> Html:
    if text is None:
        return element("td", {"class": "option nothing"}, NOTHING)
    return element("td", {"class": "option", "data-value": text, "title": text}, text)


def _figure_cell(figure: RunFigure, record: RunRecord) -> Html:
    value, before = figure.read(record, "after"), figure.text_before(record)
    if value is None:
        return element("td", {"class": "figure nothing"}, NOTHING)
    sort_key = repr(value) if math.isfinite(value) else None  # others come last
    attributes = {"class": "figure", "data-value": sort_key, "title": numbers.exact(value)}
    notes = [element("span", {"class": "note"}, text) for text in (figure.rows_of(record), before) if text]
    return element("td", attributes, figure.figure.text(value), notes)
