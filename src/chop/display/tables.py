"""Tables for papers, notebooks and files: CSV, Markdown and LaTeX; tables and texts that fit the terminal."""

from __future__ import annotations

import csv
import io
import math
import shutil
import sys
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tabulate import tabulate

from chop.display.figures import figure
from chop.display.html import html_table
from chop.display.numbers import INFINITY, MINUS, TIMES
from chop.files import write_text

if TYPE_CHECKING:
    import pandas as pd

MIN_COLUMN = 12  # characters
HEADER_PADDING = 2  # characters that tabulate adds to a header
COLUMN_GAP = 2  # characters between two columns of a plain table
SUFFIXES = {".md": "github", ".tex": "latex_booktabs"}
_LATEX = {
    **{character: f"\\{character}" for character in "&%$#_{}"},
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    **{"±": r"$\pm$", MINUS: "$-$", TIMES: r"$\times$", INFINITY: r"$\infty$", "µ": r"$\mu$"},
}


@dataclass(frozen=True)
class Measured:
    """A measured number with its standard error, in the same unit."""

    value: float
    error: float


def value_of(number: float | Measured) -> float:
    """Return a number without its standard error."""
    return number.value if isinstance(number, Measured) else number


def error_of(number: float | Measured) -> float:
    """Return the standard error of a number; 0 if it is not known."""
    return number.error if isinstance(number, Measured) else 0.0


@dataclass(frozen=True)
class Table:
    """Results by column. Printed as Markdown, shown as a table in notebooks, pasted into a paper with `to_latex`.

    A column that has the name of a key figure (`accuracy`, `weight_bits`, `bitops`, ...) gets its title, and one
    unit for all of its rows: `Weight memory (kB)`. Other columns keep their names.

    >>> print(Table(("format", "accuracy", "weight_bits"), [("int8", Measured(0.9231, 0.0041), 11_776)]))
    | Format   |   Accuracy (%) |   Weight memory (kB) |
    |----------|----------------|----------------------|
    | int8     |   92.31 ± 0.41 |                1.472 |
    """

    columns: Sequence[str]
    rows: Sequence[Sequence[object]]
    """Texts, numbers in the units of their key figures, or estimates; None: not known."""
    caption: str = ""
    """Shown above the table, but not in LaTeX, where it belongs into the environment around it."""

    def __str__(self) -> str:
        return f"{self.caption}\n\n{self.to_markdown()}" if self.caption else self.to_markdown()

    def _repr_html_(self) -> str:
        headers, cells = self._texts()
        return html_table(headers, cells, self.caption)

    def column(self, name: str) -> list[Any]:
        """Return the values of a column."""
        number = list(self.columns).index(name)
        return [row[number] for row in self.rows]

    def to_markdown(self, path: Path | str | None = None) -> str:
        """Return the table in Markdown; with `path`, also write it there."""
        headers, cells = self._texts()
        return self._written(tabulate(cells, headers, "github", disable_numparse=True, colalign=self._align), path)

    def to_latex(self, path: Path | str | None = None) -> str:
        r"""Return a `tabular` with the lines of `\usepackage{booktabs}`; with `path`, also write it there.

        Decimal points are below each other, because all numbers of a column have as many decimals.
        """
        headers, cells = self._texts()
        lines = [[_latex(text) for text in line] for line in (headers, *cells)]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        head, *body = (
            " & ".join(
                text.ljust(width) if side == "left" else text.rjust(width)
                for text, width, side in zip(line, widths, self._align, strict=True)
            )
            for line in lines
        )
        sides = "".join(side[0] for side in self._align)
        rows = [r"\toprule", rf"{head} \\", r"\midrule", *(rf"{row} \\" for row in body), r"\bottomrule"]
        text = "\n  ".join([rf"\begin{{tabular}}{{{sides}}}", *rows])
        return self._written(text + "\n\\end{tabular}", path)

    def to_csv(self, path: Path | str | None = None) -> str:
        """Return the table as CSV with all digits, in the units of the key figures; with `path`, also write it."""
        text, columns = io.StringIO(), self._data()
        csv.writer(text, lineterminator="\n").writerows([list(columns), *zip(*columns.values(), strict=True)])
        return self._written(text.getvalue().rstrip("\n"), path)

    def to_pandas(self) -> pd.DataFrame:
        """Return the table for computations; the standard errors of `accuracy` are in `accuracy_error`."""
        import pandas as pd  # here, because importing pandas takes long

        return pd.DataFrame(self._data())

    def _data(self) -> dict[str, list[object]]:
        columns: dict[str, list[object]] = {}
        for name in self.columns:
            values = self.column(name)
            columns[name] = list(map(value_of, values))
            if any(isinstance(value, Measured) for value in values):
                columns[f"{name}_error"] = [
                    value.error if isinstance(value, Measured) else None for value in values
                ]
        return columns

    def _written(self, text: str, path: Path | str | None) -> str:
        if path is not None:
            write_text(Path(path), text + "\n")
        return text

    @property
    def _align(self) -> list[str]:
        return ["right" if any(map(is_number, self.column(name))) else "left" for name in self.columns]

    def _texts(self) -> tuple[list[str], list[list[str]]]:
        """The headers and the rows as text, with one unit and as many decimals in a column."""
        columns = [_column(name, self.column(name)) for name in self.columns]
        return [title for title, _ in columns], [
            list(row) for row in zip(*(cells for _, cells in columns), strict=True)
        ]


def is_number(value: object) -> bool:
    """Whether a value is a number or an estimate of one."""
    return isinstance(value, int | float | Measured) and not isinstance(value, bool)


def _latex(text: str) -> str:
    return "".join(_LATEX.get(character, character) for character in text)


def _column(name: str, values: Sequence[Any]) -> tuple[str, list[str]]:
    """The header and the cells of a column."""
    known = [value_of(value) for value in values if is_number(value)]
    scale = figure(name).scale(known)

    def text(value: Any) -> str:
        if value is None:
            return "-"
        if isinstance(value, Measured):
            error = scale.text(value.error).lstrip("+")
            return f"{scale.text(value.value)} ± {error}" if math.isfinite(value.error) else scale.text(value.value)
        if isinstance(value, bool):
            return "yes" if value else "no"
        return scale.text(value) if is_number(value) else str(value)

    return scale.title, list(map(text, values))


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
