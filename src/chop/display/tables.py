"""Tables in files: CSV for programs, Markdown and LaTeX to paste; tables and texts that fit the terminal."""

from __future__ import annotations

import csv
import io
import shutil
import sys
import textwrap
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


def plain_table(headers: Sequence[str], rows: Sequence[Sequence[object]], align: Sequence[str]) -> str:
    """Return a table for the terminal; `align` has `left` or `right` for each column.

    If the terminal is too narrow, headers are wrapped. Columns that still do not fit follow in further tables, each
    of which begins with the first column.
    """
    cells, numbers = [list(map(str, row)) for row in rows], range(len(headers))
    if not sys.stdout.isatty():
        return _simple(headers, cells, align, numbers)
    widths = [max((len(row[i]) for row in cells), default=0) for i in numbers]
    if not _fits(headers, widths, numbers):
        headers = [_wrapped_header(header, width) for header, width in zip(headers, widths, strict=True)]
    tables = [[0]]
    for i in numbers[1:]:
        if len(tables[-1]) > 1 and not _fits(headers, widths, [*tables[-1], i]):
            tables.append([0])
        tables[-1].append(i)
    return "\n\n".join(_simple(headers, cells, align, columns) for columns in tables)


def _wrapped_header(header: str, width: int) -> str:
    """Return a header in lines as wide as its column or its longest word."""
    longest = max(map(len, header.split()), default=1)
    return textwrap.fill(header, max(longest, width - HEADER_PADDING))


def _fits(headers: Sequence[str], widths: Sequence[int], columns: Sequence[int]) -> bool:
    used = [max(widths[i], max(map(len, headers[i].split("\n"))) + HEADER_PADDING) for i in columns]
    return sum(used) + COLUMN_GAP * (len(used) - 1) <= shutil.get_terminal_size().columns


def _simple(
    headers: Sequence[str], cells: Sequence[Sequence[str]], align: Sequence[str], columns: Sequence[int]
) -> str:
    rows = [[row[i] for i in columns] for row in cells]
    sides = [align[i] for i in columns]
    return tabulate(rows, [headers[i] for i in columns], disable_numparse=True, colalign=sides)


def wrapped_text(text: str, indent: int = 0) -> str:
    """Return a text for the terminal: its lines are wrapped between words, and all but the first are indented."""
    if not sys.stdout.isatty():
        return text
    wrapper = textwrap.TextWrapper(
        shutil.get_terminal_size().columns,
        subsequent_indent=" " * indent,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return "\n".join(map(wrapper.fill, text.split("\n")))
