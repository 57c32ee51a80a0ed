"""The page of one run, and the page that compares several runs."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from operator import attrgetter
from pathlib import Path

from chop.display import numbers
from chop.display.figures import figure
from chop.display.launcher import launcher
from chop.display.numbers import counted
from chop.reporting.view.columns import ACCURACY, ALL_FIGURES
from chop.reporting.view.compare import (
    NOT_QUANTIZED,
    ComparedCell,
    ComparedRow,
    chosen_option_rows,
    figure_rows,
    format_rows,
    is_comparable,
    option_rows,
    summary_rows,
)
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
    section,
    sheet,
    synthetic_badge,
)
from chop.reporting.view.nested_tables import is_number, tables_at, text_at
from chop.reporting.view.run_record import RunRecord, run_names
from chop.reporting.view.served_files import find_run_file, list_files
from chop.sweeping.table import FLOAT_BITS, columns_of

PLOTS = tuple(map(attrgetter, ("curves_plot", "confusion_plot", "grid_plot", "sweep_plot", "front_plot")))
"""The plots of a run folder."""


def run_page(record: RunRecord) -> Html:
    """Return the page of one run, with a link to its report."""
    top = [_back_link(), _errors([record]), _report_link(record), _figure_cards(record)]
    rest = [_grid(record), sweep_table(record), _plots([record]), _sections([record]), _files(record)]
    return page(record.name, [_subtitle(record), _badge(record)], *top, *rest)


def compare_page(records: Sequence[RunRecord]) -> Html:
    """Return the page that compares runs; differences are relative to the oldest one."""
    ordered = sorted(records, key=lambda record: record.started)
    title = " and ".join(record.name for record in ordered) if len(ordered) == 2 else f"{len(ordered)} runs"
    figures = section("key-figures", "Key figures", _table("figure", figure_rows(ordered), ordered))
    top = [_back_link(), _errors(ordered), _other_data(ordered), figures, _plots(ordered)]
    return page("Comparison", title, *top, _sections(ordered))


def _other_data(records: Sequence[RunRecord]) -> Html | None:
    """Return a sentence about runs that were not measured on the test rows of the oldest one."""
    first, *others = records
    names = [record.name for record in others if not is_comparable(ACCURACY, first, record)]
    if not names:
        return None
    verb = "was" if len(names) == 1 else "were"
    text = (
        f"{' and '.join(names)} {verb} tested on other rows than {first.name}: accuracy and loss are not compared."
    )
    return element("p", {"class": "notice"}, text)


def _sections(records: Sequence[RunRecord]) -> list[Html]:
    """Return the sections of formats, options and summary; if there are several runs, equal rows are collapsed."""
    formats, errors = format_rows(records)
    lead = "Operands that are quantised" + (" in at least one run" if len(records) > 1 else "")
    layers = [
        *(element("p", {"class": "error"}, error) for error in errors),
        element("p", {"class": "lead"}, f"{lead}; all others are {NOT_QUANTIZED}.") if formats else None,
        _tables("operand", *(_divided(formats) if len(records) > 1 else (formats, [])), "equal rows", records)
        if formats
        else None,
    ]
    parts = [section("formats", "Formats by layer", layers)] if formats or errors else []
    if len(records) == 1:
        chosen, defaults = chosen_option_rows(records[0])
        tables = [("option", "Options", chosen, defaults, "options with their default values")]
        tables += [("key", "Summary", [], summary_rows(records), "values of the run")]
    else:
        options, values = option_rows(records), summary_rows(records)
        tables = [("option", "Options", *_divided(options), "equal rows")]
        tables += [("key", "Summary", *_divided(values), "equal rows")]
    return parts + [
        section(title.lower(), title, _tables(what, shown, folded, title_of_folded, records))
        for what, title, shown, folded, title_of_folded in tables
        if shown or folded
    ]


def _divided(rows: Sequence[ComparedRow]) -> tuple[list[ComparedRow], list[ComparedRow]]:
    """Divide rows into those in which the runs differ, and those in which they do not."""
    return [row for row in rows if row.differs], [row for row in rows if not row.differs]


def _figure_cards(record: RunRecord) -> Html | None:
    """Return the key figures of one run, as at the top of a report."""
    cards = []
    for each in ALL_FIGURES:
        value, text_before = each.read(record, "after"), each.text_before(record)
        if value is None:
            continue
        rows = each.rows_of(record)
        before = [element("span", {"class": "was"}, text) for text in (text_before, rows and f"on {rows}") if text]
        title = element("dt", {"title": each.help}, each.figure.column_heading)
        shown = element("dd", {"title": numbers.exact(value)}, each.figure.text(value), before)
        cards.append(element("div", {"class": "figure-card"}, title, shown))
    return element("dl", {"id": "figures", "aria-label": "Key figures"}, cards) if cards else None


def _tables(
    what: str,
    shown: Sequence[ComparedRow],
    folded: Sequence[ComparedRow],
    title_of_folded: str,
    records: Sequence[RunRecord],
) -> Html:
    """Return rows in a table, and others in a table below that is closed at first."""
    parts: list[Html] = []
    if shown:
        parts.append(_table(what, shown, records))
    elif len(records) > 1:
        parts.append(element("p", {"class": "plain"}, "No differences."))
    if folded:
        summary = element("summary", None, f"{len(folded)} {title_of_folded}")
        kind = title_of_folded.partition(" ")[0]
        parts.append(element("details", None, summary, _table(f"{what}, {kind}", folded, records)))
    return join(parts)


def _table(what: str, rows: Sequence[ComparedRow], records: Sequence[RunRecord]) -> Html:
    names: list[Content] = ["value"]
    if len(records) > 1:
        names = [join(link(run_address(record.name), record.name), _badge(record)) for record in records]
    lines = [
        element("tr", None, element("th", {"scope": "row"}, row.title), [_cell(cell) for cell in row.cells])
        for row in rows
    ]
    return sheet(f"Table: {what}", (what.partition(",")[0], *names), lines)


def _badge(record: RunRecord) -> Html | None:
    return synthetic_badge() if record.has_synthetic_data else None


def _cell(cell: ComparedCell) -> Html:
    if cell.text is None:
        return element("td", {"class": "nothing"}, NOTHING)
    classes = f"change {cell.verdict or ''}".strip()
    change = element("span", {"class": classes}, cell.change) if cell.change else None
    rows = element("span", {"class": "change"}, cell.rows) if cell.rows else None
    return element("td", {"title": cell.exact if cell.exact != cell.text else None}, cell.text, change, rows)


def _subtitle(record: RunRecord) -> str:
    accuracy = ACCURACY.read(record, "after")
    on = f" on {record.evaluated_on}" if record.evaluated_on else ""
    shown = None if accuracy is None else f"accuracy {numbers.percent(accuracy)}{on}"
    started = f"{record.started:%Y-%m-%d %H:%M}{' (file time)' if record.has_file_time else ''}"
    parts = (record.action, record.model, record.data_title or record.data, started, shown)
    return " · ".join(part for part in parts if part)


def _back_link() -> Html:
    return element("p", {"class": "back"}, link("/", "← all runs"))


def _errors(records: Sequence[RunRecord]) -> list[Html]:
    prefix = len(records) > 1
    return [
        element("p", {"class": "error"}, f"{record.name}: {error}" if prefix else error)
        for record in records
        for error in record.errors
    ]


def _report_link(record: RunRecord) -> Html | None:
    """Return the link to the report; if there is no report yet, the command that makes it."""
    if record.has_report:
        address = file_address(record.name, record.folder.report.name)
        return element("p", {"class": "back"}, link(address, "Report: graph, layers, histograms"))
    if not record.can_have_report:
        return None
    command = f"{launcher()} report {shlex.quote(str(record.folder.path))}"
    copy = element("button", {"type": "button", "class": "quiet", "data-copy": command, "hidden": True}, "Copy")
    words = ("There is no report yet. To create it: ", element("code", None, command), " ", copy)
    return element("p", {"class": "command"}, words)


def _grid(record: RunRecord) -> Html | None:
    """Return the rows of a grid, each with links to its runs."""
    rows = tables_at(record.grid, "rows")
    if not rows:
        return None
    keys = list(dict.fromkeys(key for row in rows for key in row if key != "runs"))
    lines = []
    for row in rows:
        runs = [join(link(run_address(name), name), " ") for name in run_names(row)]
        cells = [element("td", None, _numbers(row.get(key))) for key in keys]
        lines.append(element("tr", None, cells, element("td", {"class": "runs"}, runs)))
    return section("grid", "Grid", sheet("Table of the grid", (*keys, "runs"), lines))


def sweep_table(record: RunRecord) -> Html | None:
    """Return the settings of a sweep; the one with the fewest bit operations within the allowed loss is marked."""
    rows = tables_at(record.summary, "rows")
    if not rows or record.action != "sweep":
        return None
    columns = columns_of({name: value for row in rows for name, value in row.items() if is_number(value)})
    heads = ["format", "bits", *(column.column_title for column in columns)]
    best = text_at(record.summary, "best")
    lines = []
    baseline = record.summary.get("baseline")
    if isinstance(baseline, Mapping):
        rows = [{"format": "unchanged", "bits": FLOAT_BITS, **baseline}, *rows]
    for row in rows:
        texts = [str(row.get("format", NOTHING)), _numbers(row.get("bits"))]
        values = ((column, row.get(column.name)) for column in columns)
        texts += [column.text(value) if is_number(value) else NOTHING for column, value in values]
        bits = row.get("bits")
        is_best = is_number(bits) and best == f"{row.get('format')}, {counted(float(bits), 'bit')}"
        cells = [element("td", None, text) for text in texts]
        lines.append(element("tr", {"class": "best" if is_best else None}, cells))
    chosen_by = text_at(record.summary, "chosen_by")
    of_what = f" of {figure(chosen_by).title}" if chosen_by else ""
    text = f"Fewest bit operations within the allowed loss{of_what}: {best}."
    lead = element("p", {"class": "lead"}, text) if best else None
    return section("sweep", "Sweep", lead, sheet("Table of the sweep", heads, lines))


def _numbers(value: object) -> str:
    values = value if isinstance(value, list) else [value]
    return ", ".join(numbers.exact(each) if is_number(each) else str(each) for each in values)


def _plots(records: Sequence[RunRecord]) -> Html | None:
    """Return the plots of all runs; plots of the same kind share a row."""
    rows = []
    for plot in PLOTS:
        figures = [image for record in records if (image := _plot(record, plot(record.folder), len(records) > 1))]
        if figures:
            rows.append(element("div", {"class": "plots"}, figures))
    return section("plots", "Plots", rows) if rows else None


def _plot(record: RunRecord, path: Path, with_name: bool) -> Html | None:
    if find_run_file(record.folder, path) is None:
        return None
    address = file_address(record.name, *path.relative_to(record.folder.path).parts)
    image = element("img", {"src": address, "alt": f"{path.stem} of {record.name}", "loading": "lazy"})
    caption: Content = element("figcaption", None, record.name) if with_name else None
    return element("figure", None, link(address, image), caption)


def _files(record: RunRecord) -> Html:
    items = [
        element("li", None, link(file_address(record.name, *parts), "/".join(parts)))
        for parts in list_files(record.folder.path)
    ]
    return section("files", "Files", element("ul", {"class": "files"}, items))
