"""The report of a sweep: its table, the best setting, and accuracy over bits."""

from __future__ import annotations

import shlex
from pathlib import Path

from chop.display.html import html_image
from chop.display.launcher import launcher
from chop.display.tables import SUFFIXES
from chop.files import CorruptFileError, write_text
from chop.reporting.view.html import Html, element, section, standalone_page
from chop.reporting.view.pages import sweep_table
from chop.reporting.view.run_record import RunRecord, find_record
from chop.runs import RunFolder


def write_sweep_report(folder: RunFolder, path: Path) -> None:
    """Write the page of a sweep to `path`."""
    record = find_record(folder.path.absolute().parent, folder.name)
    table = sweep_table(record) if record is not None else None
    if record is None or table is None:
        raise CorruptFileError(f"{folder.summary} is corrupt: it has no settings of a sweep")
    write_text(path, _page(record, table))


def _page(record: RunRecord, table: Html) -> Html:
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
