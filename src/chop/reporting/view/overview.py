"""The page with all runs of a project."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

from chop.display import numbers
from chop.display.launcher import launcher
from chop.reporting.view.differences import OptionColumn, differing_options
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
from chop.reporting.view.run_figures import COLUMNS, PARAMETERS, RunFigure
from chop.reporting.view.run_record import MAX_RECORDS_KEPT, RunRecord

TEXT_COLUMNS, START_COLUMN = ("run", "action", "model", "data"), "started"
"""The first columns and the last one. Between them are the key figures, and options that differ."""
NUM_COMPARED = range(2, 7)
"""How many runs can be compared."""


def overview_page(root: Path, records: Sequence[RunRecord]) -> Html:
    """Return the page with the table of all runs, newest first."""
    lead = f"{root} · {len(records)} {'run' if len(records) == 1 else 'runs'}"
    if records:
        content = element("form", {"action": "/compare", "method": "get"}, _toolbar(), _table(records))
    else:
        command = element("code", None, f"{launcher()} train jsc-tiny jsc")
        content = element("p", {"class": "plain"}, "There are no runs yet. To start one: ", command)
    return page("Runs", lead, content)


def _toolbar() -> Html:
    label = element("span", {"class": "unseen"}, "Filter runs")
    filter_ = element(
        "input",
        {
            "type": "search",
            "id": "filter",
            "placeholder": "Filter runs",
            "autocomplete": "off",
            "spellcheck": "false",
        },
    )
    count = element("output", {"id": "filter-count", "for": "filter"})
    return element(
        "div",
        {"class": "toolbar"},
        element("label", {"class": "field grow"}, label, filter_, count),
        element("span", {"id": "chosen"}, "select two or more runs"),
        element("button", {"type": "submit", "id": "compare", "data-max": NUM_COMPARED[-1]}, "Compare"),
    )


def _table(records: Sequence[RunRecord]) -> Html:
    known = set().union(*(_known_figures(record) for record in records))
    figures = tuple(figure for figure in COLUMNS if figure.figure.name in known)
    options, num_others = differing_options(tuple(records))
    caption = element("caption", {"class": "unseen"}, "Runs; the header buttons sort the rows")
    heads = [
        element("th", {"scope": "col"}, element("span", {"class": "unseen"}, "compare")),
        *(_head(word, "text") for word in TEXT_COLUMNS),
        *(_figure_head(figure) for figure in figures),
        *(_head(column.title.replace("_", " "), "option", column.key) for column in options),
        _head(START_COLUMN, "text"),
    ]
    body = element("tbody", None, [_row(record, options, figures) for record in records])
    table = element("table", {"id": "table"}, caption, element("thead", None, element("tr", None, heads)), body)
    return join(scrolling("Table of runs", table), _others_note(num_others))


def _head(title: str, kind: str, tooltip: str | None = None, sort: str = "text") -> Html:
    return element("th", {"scope": "col", "class": kind, "data-sort": sort, "title": tooltip}, title)


def _figure_head(figure: RunFigure) -> Html:
    return _head(figure.title, "figure", figure.help, "number")


def _others_note(num_others: int) -> Html | None:
    if not num_others:
        return None
    options = "option differs" if num_others == 1 else "options differ"
    return element("p", {"class": "command"}, f"{num_others} more {options} between runs: compare them.")


@lru_cache(maxsize=MAX_RECORDS_KEPT)
def _known_figures(record: RunRecord) -> frozenset[str]:
    return frozenset(each.figure.name for each in COLUMNS if each.read(record, "after") is not None)


@lru_cache(maxsize=MAX_RECORDS_KEPT)
def _row(record: RunRecord, options: tuple[OptionColumn, ...], figures: tuple[RunFigure, ...]) -> Html:
    box = {"type": "checkbox", "name": "run", "value": record.name, "aria-label": f"compare {record.name}"}
    name = element("th", {"scope": "row", "data-value": record.name}, _name(record))
    cells = [
        _text_cell(record.action),
        _text_cell(record.model and Path(record.model).name, _about_model(record)),
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
    return element("tr", None, element("td", None, element("input", box)), name, cells)


def _about_model(record: RunRecord) -> str | None:
    value = PARAMETERS.read(record, "after")
    parameters = None if value is None else f"{PARAMETERS.figure.text(value)} parameters"
    return ", ".join(filter(None, (record.model, parameters))) or None


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
