"""Tables in files: CSV for programs, Markdown and LaTeX to paste; and tables that fit the terminal."""

from __future__ import annotations

import csv
import io
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from tabulate import tabulate

from chop.files import write_text

MIN_COLUMN = 12  # characters
HEADER_PADDING = 2  # characters that tabulate adds to a header
COLUMN_GAP = 2  # characters between two columns of a plain table
SUFFIXES = {".md": "github", ".tex": "latex_booktabs"}


def write_table(path: Path, headers: Sequence[str], cells: Sequence[Sequence[str]]) -> None:
    """Write a table to the CSV file `path`, and beside it as Markdown and LaTeX."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([headers, *cells])
    write_text(path, text.getvalue())
    for suffix, kind in SUFFIXES.items():
        table = tabulate(cells, headers, tablefmt=kind, disable_numparse=True, stralign="right")
        write_text(path.with_suffix(suffix), table + "\n")


def column_limits(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> list[int | None] | None:
    """Return where tabulate wraps the columns of a plain table so that it fits the terminal; None if it fits.

    The widest columns are wrapped, all at the same width.
    """
    columns = zip(headers, zip(*rows, strict=True), strict=True)
    widths = [max(len(header) + HEADER_PADDING, *map(len, cells)) for header, cells in columns]
    space = shutil.get_terminal_size().columns - COLUMN_GAP * (len(widths) - 1)
    if not sys.stdout.isatty() or sum(widths) <= space:
        return None
    limit = max(widths)
    while limit > MIN_COLUMN and sum(min(width, limit) for width in widths) > space:
        limit -= 1
    return [limit if width > limit else None for width in widths]
