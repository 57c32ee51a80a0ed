"""The reports of grids and of sweeps: their tables, the best combination or setting, and plots."""

from __future__ import annotations

import csv
import io
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean
from typing import Any

from chop.display.html import html_image, png_image
from chop.display.launcher import launcher
from chop.display.numbers import counted
from chop.display.tables import SUFFIXES
from chop.files import MAX_RECORD_BYTES, CorruptFileError, read_json, read_text, write_text
from chop.reporting.view.html import Html, element, join, link, section, sheet, standalone_page
from chop.reporting.view.nested_tables import is_number, tables_at
from chop.reporting.view.pages import sweep_table
from chop.reporting.view.run_record import RunRecord, find_record, run_names
from chop.runs import RunFolder

ACCURACY = "test accuracy (best)"
MAX_CURVES = 12
"""Curves in one plot; with more combinations, only the first ones are drawn."""


@dataclass(frozen=True)
class GridTable:
    """The table of a grid."""

    folder: RunFolder
    title: str
    rows: Sequence[Mapping[str, Any]]
    """The options, results and runs of each combination."""
    headers: Sequence[str]
    cells: Sequence[Sequence[str]]
    """The same rows as text."""

    @classmethod
    def read(cls, folder: RunFolder) -> GridTable:
        grid = read_json(folder.grid, MAX_RECORD_BYTES)
        rows = tables_at(grid, "rows")
        lines = list(csv.reader(read_text(folder.grid_table).splitlines()))
        if not rows or len(lines) != len(rows) + 1:
            raise CorruptFileError(f"{folder.grid} is corrupt: {folder.grid_table.name} has other rows")
        return cls(folder, str(grid.get("title", "")), rows, lines[0], lines[1:])

    @property
    def best(self) -> int | None:
        """The position of the row with the highest mean test accuracy."""
        means = {}
        for number, row in enumerate(self.rows):
            values = row.get(ACCURACY)
            if isinstance(values, list) and values and all(map(is_number, values)):
                means[number] = mean(values)
        return max(means, key=lambda number: means[number], default=None)

    def options(self, number: int) -> str:
        """Return the options of a row, which come before its results: `epoch 3, batch_size 64`."""
        end = self.headers.index("training loss") if "training loss" in self.headers else len(self.headers)
        return ", ".join(
            f"{name} {cell}" for name, cell in zip(self.headers[:end], self.cells[number], strict=False)
        )


def write_grid_report(folder: RunFolder, path: Path) -> GridTable:
    """Write the page of a grid to `path`, and return the table that it shows."""
    table = GridTable.read(folder)
    write_text(path, _grid_page(table))
    return table


def _grid_page(table: GridTable) -> Html:
    num_runs = sum(len(run_names(row)) for row in table.rows)
    lead = f"{table.title} · {counted(len(table.rows), 'combination')}, {counted(num_runs, 'run')}"
    images = [html_image(table.folder.grid_plot)] if table.folder.grid_plot.is_file() else []
    images += [curves] if (curves := _curves(table)) else []
    figures = [Html(f"<figure>{image}</figure>") for image in images]
    best = table.best
    note = "" if best is None else f"The best combination by test accuracy is {table.options(best)}."
    return standalone_page(
        table.folder.name,
        lead,
        section("grid", "Grid", element("p", {"class": "lead"}, note) if note else None, _table(table)),
        section("plots", "Plots", element("div", {"class": "plots"}, figures)) if figures else None,
        section("files", "The table as a file", element("ul", {"class": "files"}, _files(table.folder))),
    )


def _table(table: GridTable) -> Html:
    lines = [
        element(
            "tr",
            {"class": "best" if number == table.best else None},
            [element("td", None, cell) for cell in line],
            element("td", {"class": "runs"}, [join(_run_link(table.folder, name), " ") for name in run_names(row)]),
        )
        for number, (row, line) in enumerate(zip(table.rows, table.cells, strict=True))
    ]
    return sheet("Table of the grid", (*table.headers, "runs"), lines)


def _run_link(folder: RunFolder, name: str) -> Html | str:
    """Return a link to the report of a run beside the grid, if it has one; else its name."""
    has_report = RunFolder(folder.path.parent / name).report.is_file()
    return link(f"../{name}/{folder.report.name}", name) if has_report else name


def _files(folder: RunFolder) -> list[Html]:
    suffixes = {".csv": "for programs", ".md": "Markdown", ".tex": "LaTeX"}
    paths = {folder.grid_table.with_suffix(suffix): kind for suffix, kind in suffixes.items()}
    return [element("li", None, f"{path.name} ({kind})") for path, kind in paths.items() if path.is_file()]


def _curves(table: GridTable) -> str:
    """Return a plot of the validation loss by epoch as HTML; empty if no run has several epochs."""
    curves = {}
    for number, row in enumerate(table.rows[:MAX_CURVES]):
        for name in run_names(row)[:1]:
            lines = RunFolder(table.folder.path.parent / name).read_metrics()
            points = [(line["epoch"], line["val_loss"]) for line in lines if "val_loss" in line and "epoch" in line]
            if len(points) > 1:
                curves[table.options(number)] = points
    if not curves:
        return ""
    from matplotlib.figure import Figure  # here, because importing Matplotlib takes long

    from chop.display.plots import BLUE, DPI, MORE_COLOURS, VERMILION, label_axes

    figure = Figure(figsize=(6, 4), layout="constrained")
    axes = figure.subplots()
    colours = (BLUE, VERMILION, *MORE_COLOURS)
    for number, (label, points) in enumerate(curves.items()):
        style = ("-", "--", ":")[number // len(colours) % 3]
        axes.plot(*zip(*points, strict=True), style, color=colours[number % len(colours)], label=label)
    label_axes(axes, "epoch", "validation loss", integer_x=True)
    axes.legend(frameon=False, fontsize=7)
    data = io.BytesIO()
    figure.savefig(data, format="png", dpi=DPI)
    return png_image(data.getvalue(), "validation loss by epoch")


def write_sweep_report(folder: RunFolder, path: Path) -> None:
    """Write the page of a sweep to `path`."""
    record = find_record(folder.path.absolute().parent, folder.name)
    table = sweep_table(record) if record is not None else None
    if record is None or table is None:
        raise CorruptFileError(f"{folder.summary} is corrupt: it has no settings of a sweep")
    write_text(path, _sweep_page(record, table))


def _sweep_page(record: RunRecord, table: Html) -> Html:
    folder = record.folder
    command = element("code", None, command_of_best_setting(folder))
    has_best = folder.sweep_config.is_file()
    plot = [Html(f"<figure>{html_image(folder.sweep_plot)}</figure>")] if folder.sweep_plot.is_file() else []
    files = [path for suffix in (".csv", *SUFFIXES) if (path := folder.sweep_table.with_suffix(suffix)).is_file()]
    items = [element("li", None, path.name) for path in files]
    return standalone_page(
        folder.name,
        f"sweep · {record.model} · {record.data_title or record.data}",
        table,
        element("p", {"class": "command"}, "Quantise the model to it: ", command) if has_best else None,
        section("plots", "Accuracy over bits", element("div", {"class": "plots"}, plot)) if plot else None,
        section("files", "The table as a file", element("ul", {"class": "files"}, items)),
    )


def command_of_best_setting(folder: RunFolder) -> str:
    """Return the command that quantises the model to the best setting."""
    return f"{launcher()} {shlex.join(['transform', '--config', str(folder.sweep_config), '--report'])}"
