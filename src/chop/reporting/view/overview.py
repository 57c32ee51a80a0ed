"""The page with all runs of a project."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

from chop.display import numbers
from chop.display.terminal import launcher
from chop.reporting.view.html import NOTHING, Html, element, file_address, join, link, page, run_address, scrolling
from chop.reporting.view.run_figures import FIGURES, Figure
from chop.reporting.view.run_record import Record

WORDS = ("run", "action", "model", "data", "began")
"""Columns of text, before those of numbers."""
COMPARED = range(2, 7)
"""How many runs fit side by side."""


def overview_page(root: Path, records: Sequence[Record]) -> Html:
    lead = f"{root} · {len(records)} {'run' if len(records) == 1 else 'runs'}"
    if records:
        content = element("form", {"action": "/compare", "method": "get"}, _toolbar(), _table(records))
    else:
        command = element("code", None, f"{launcher()} train jsc-tiny jsc")
        content = element("p", {"class": "plain"}, "There is no run here yet. A first one: ", command)
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
        element("span", {"id": "chosen"}, "choose two runs or more"),
        element("button", {"type": "submit", "id": "compare", "data-most": COMPARED[-1]}, "Compare"),
    )


def _table(records: Sequence[Record]) -> Html:
    figures = [figure for figure in FIGURES if any(figure.read(record, "after") is not None for record in records)]
    caption = element("caption", {"class": "unseen"}, "Runs; the buttons in the header sort")
    heads = [element("th", {"scope": "col"}, element("span", {"class": "unseen"}, "compare"))]
    heads += [element("th", {"scope": "col", "class": "text", "data-sort": "text"}, word) for word in WORDS]
    heads += [
        element(
            "th", {"scope": "col", "class": "figure", "data-sort": "number", "title": figure.help}, figure.title
        )
        for figure in figures
    ]
    body = element("tbody", None, [_row(record, figures) for record in records])
    table = element("table", {"id": "table"}, caption, element("thead", None, element("tr", None, heads)), body)
    return scrolling("Table of runs", table)


def _row(record: Record, figures: Sequence[Figure]) -> Html:
    box = {"type": "checkbox", "name": "run", "value": record.name, "aria-label": f"compare {record.name}"}
    name = element("th", {"scope": "row", "data-value": record.name}, _name(record))
    cells = [
        _word(record.action),
        _word(record.model and Path(record.model).name, record.model),
        _word(record.data and Path(record.data).name, record.data_title or record.data),
        element(
            "td",
            {"class": "text began", "data-value": record.began.isoformat()},
            element("time", {"datetime": record.began.isoformat()}, f"{record.began:%Y-%m-%d}"),
            element("span", {"class": "note"}, f"{record.began:%H:%M:%S}"),
        ),
        *(_figure(figure, record) for figure in figures),
    ]
    state = "damaged" if record.problems else None
    return element("tr", {"class": state}, element("td", None, element("input", box)), name, cells)


def _name(record: Record) -> Html:
    report = link(file_address(record.name, "report.html"), "report") if record.has_report else None
    about = join(report, " · " if report and record.note else None, record.note)
    notes = [element("span", {"class": "note"}, about)] if about else []
    notes += [element("span", {"class": "note problem"}, problem) for problem in record.problems]
    return join(link(run_address(record.name), record.name), notes)


def _word(text: str | None, whole: str | None = None) -> Html:
    if text is None:
        return element("td", {"class": "text nothing"}, NOTHING)
    return element("td", {"class": "text", "data-value": text, "title": whole if whole != text else None}, text)


def _figure(figure: Figure, record: Record) -> Html:
    value, was = figure.read(record, "after"), figure.was(record)
    if value is None:
        return element("td", {"class": "figure nothing"}, NOTHING)
    sorts = repr(value) if math.isfinite(value) else None  # what is no number comes last
    attributes = {"class": "figure", "data-value": sorts, "title": numbers.plain(value)}
    return element("td", attributes, figure.show(value), element("span", {"class": "note"}, was) if was else None)
