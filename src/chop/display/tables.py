"""Tables in files: CSV for programs, Markdown and LaTeX to paste."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from pathlib import Path

from tabulate import tabulate

from chop.files import write_text

SUFFIXES = {".md": "github", ".tex": "latex_booktabs"}


def write_table(path: Path, headers: Sequence[str], cells: Sequence[Sequence[str]]) -> None:
    """Write a table to the CSV file `path`, and beside it as Markdown and LaTeX."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([headers, *cells])
    write_text(path, text.getvalue())
    for suffix, kind in SUFFIXES.items():
        table = tabulate(cells, headers, tablefmt=kind, disable_numparse=True, stralign="right")
        write_text(path.with_suffix(suffix), table + "\n")
