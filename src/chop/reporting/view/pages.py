"""The page of one run, and the page of several side by side."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

from chop.display import numbers
from chop.display.terminal import launcher
from chop.reporting.view.compare import Cell, Row, figure_rows, format_rows, option_rows, summary_rows
from chop.reporting.view.formats_by_layer import PLAIN
from chop.reporting.view.html import (
    NOTHING,
    Content,
    Html,
    element,
    file_address,
    join,
    link,
    page,
    run_address,
    scrolling,
    section,
)
from chop.reporting.view.reading import is_number, tables_at
from chop.reporting.view.run_figures import ACCURACY, FIGURES, LOSS
from chop.reporting.view.run_record import Record
from chop.reporting.view.served_files import find_file, list_files

PICTURES = (("curves.png",), ("confusion.png",), ("grid.png",), ("search", "pareto.png"))


def run_page(record: Record) -> Html:
    """All that one run left, with the way to its report."""
    begin = [_back(), _problems([record]), _report(record), _cards(record), _grid(record), _pictures([record])]
    return page(record.name, _what(record), *begin, _sections([record]), _files(record))


def compare_page(records: Sequence[Record]) -> Html:
    """Runs side by side, the first to begin being what the others are measured by."""
    ordered = sorted(records, key=lambda record: record.began)
    title = " and ".join(record.name for record in ordered) if len(ordered) == 2 else f"{len(ordered)} runs"
    figures = section("key-figures", "Key figures", _table("figure", figure_rows(ordered), ordered))
    return page("Comparison", title, _back(), _problems(ordered), figures, _pictures(ordered), _sections(ordered))


def _sections(records: Sequence[Record]) -> list[Html]:
    """Formats, options and all other facts; of several runs what differs first, the rest folded away."""
    formats, problems = format_rows(records)
    lead = "Operands that are quantised" + (" in one of the runs" if len(records) > 1 else "")
    layers = [
        *(element("p", {"class": "problem"}, problem) for problem in problems),
        element("p", {"class": "lead"}, f"{lead}; all others are {PLAIN}.") if formats else None,
        _tables("operand", formats, records) if formats else None,
    ]
    tables = [("option", "Options", option_rows(records)), ("fact", "Summary", summary_rows(records))]
    return [
        *([section("formats", "Formats by layer", layers)] if formats or problems else []),
        *(section(title.lower(), title, _tables(what, rows, records)) for what, title, rows in tables if rows),
    ]


def _cards(record: Record) -> Html | None:
    """The key figures of one run, as at the top of a report."""
    cards = []
    for figure in (ACCURACY, LOSS, *FIGURES[1:]):
        value, was = figure.read(record, "after"), figure.was(record)
        if value is None:
            continue
        before = element("span", {"class": "was"}, was) if was else None
        title = element("dt", {"title": figure.help}, figure.title)
        shown = element("dd", {"title": numbers.plain(value)}, figure.show(value), before)
        cards.append(element("div", {"class": "figure-card"}, title, shown))
    return element("dl", {"id": "figures", "aria-label": "Key figures"}, cards) if cards else None


def _tables(what: str, rows: Sequence[Row], records: Sequence[Record]) -> Html:
    """The rows in which the runs differ; the others below, to be unfolded. Of one run, all rows."""
    if len(records) == 1:
        return _table(what, rows, records)
    differ, equal = [row for row in rows if row.differs], [row for row in rows if not row.differs]
    shown = _table(what, differ, records) if differ else element("p", {"class": "plain"}, "No difference.")
    if not equal:
        return shown
    summary = element("summary", None, f"{len(equal)} the same")
    return join(shown, element("details", None, summary, _table(f"{what}, the same", equal, records)))


def _table(what: str, rows: Sequence[Row], records: Sequence[Record]) -> Html:
    names = [link(run_address(record.name), record.name) for record in records] if len(records) > 1 else ["value"]
    heads = [element("th", {"scope": "col"}, name) for name in (what.partition(",")[0], *names)]
    lines = [
        element("tr", None, element("th", {"scope": "row"}, row.title), [_cell(cell) for cell in row.cells])
        for row in rows
    ]
    head = element("thead", None, element("tr", None, heads))
    return scrolling(f"Table: {what}", element("table", {"class": "sheet"}, head, element("tbody", None, lines)))


def _cell(cell: Cell) -> Html:
    if cell.text is None:
        return element("td", {"class": "nothing"}, NOTHING)
    change = (
        element("span", {"class": f"change {cell.verdict or ''}".strip()}, cell.change) if cell.change else None
    )
    return element("td", {"title": cell.exact if cell.exact != cell.text else None}, cell.text, change)


def _what(record: Record) -> str:
    accuracy = ACCURACY.read(record, "after")
    words = [record.action, record.model, record.data_title or record.data, f"{record.began:%Y-%m-%d %H:%M}"]
    words += [None if accuracy is None else f"accuracy {numbers.percent(accuracy)}"]
    return " · ".join(word for word in words if word)


def _back() -> Html:
    return element("p", {"class": "back"}, link("/", "← all runs"))


def _problems(records: Sequence[Record]) -> list[Html]:
    prefix = len(records) > 1
    return [
        element("p", {"class": "problem"}, f"{record.name}: {problem}" if prefix else problem)
        for record in records
        for problem in record.problems
    ]


def _report(record: Record) -> Html | None:
    """The way to the report; where there is none yet, the command that makes it."""
    if record.has_report:
        address = file_address(record.name, "report.html")
        return element("p", {"class": "back"}, link(address, "Report: graph, layers, histograms"))
    if not record.can_have_report:
        return None
    command = f"{launcher()} report {shlex.quote(str(record.folder))}"
    copy = element("button", {"type": "button", "class": "quiet", "data-copy": command, "hidden": True}, "Copy")
    return element(
        "p", {"class": "command"}, "No report yet; this makes it: ", element("code", None, command), " ", copy
    )


def _grid(record: Record) -> Html | None:
    """The rows of a grid, each with its runs."""
    rows = tables_at(record.grid, "rows")
    if not rows:
        return None
    keys = list(dict.fromkeys(key for row in rows for key in row if key != "runs"))
    heads = [element("th", {"scope": "col"}, key) for key in (*keys, "runs")]
    lines = []
    for row in rows:
        runs = [join(link(run_address(name), name), " ") for name in record.members(row)]
        cells = [element("td", None, _numbers(row.get(key))) for key in keys]
        lines.append(element("tr", None, cells, element("td", None, runs)))
    head, body = element("thead", None, element("tr", None, heads)), element("tbody", None, lines)
    return section("grid", "Grid", scrolling("Table of the grid", element("table", {"class": "sheet"}, head, body)))


def _numbers(value: object) -> str:
    values = value if isinstance(value, list) else [value]
    return ", ".join(numbers.plain(each) if is_number(each) else str(each) for each in values)


def _pictures(records: Sequence[Record]) -> Html | None:
    """The same picture of all runs in a row."""
    rows = []
    for parts in PICTURES:
        found = [record for record in records if find_file(record.folder, parts) is not None]
        if found:
            shown = [_picture(record, parts, records) for record in found]
            rows.append(element("div", {"class": "pictures"}, shown))
    return section("pictures", "Pictures", rows) if rows else None


def _picture(record: Record, parts: tuple[str, ...], records: Sequence[Record]) -> Html:
    what = Path(parts[-1]).stem
    address = file_address(record.name, *parts)
    image = element("img", {"src": address, "alt": f"{what} of {record.name}", "loading": "lazy"})
    caption: Content = element("figcaption", None, record.name) if len(records) > 1 else None
    return element("figure", None, link(address, image), caption)


def _files(record: Record) -> Html:
    items = [
        element("li", None, link(file_address(record.name, *parts), "/".join(parts)))
        for parts in list_files(record.folder)
    ]
    return section("files", "Files", element("ul", {"class": "files"}, items))
