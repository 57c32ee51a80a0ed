"""ARFF, the text format of OpenML: a line per column, then rows separated by commas."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from chop.dataset.readers.csv import read_rows
from chop.dataset.readers.errors import reading, shorten

if TYPE_CHECKING:
    from pandas import DataFrame

ATTRIBUTE = re.compile(r"""@attribute\s+('[^']*'|"[^"]*"|\S+)\s+\S""", re.IGNORECASE)


def read_arff(path: Path) -> DataFrame:
    """Return the table in an ARFF file; `?` is a missing value."""
    with reading(path, "ARFF file"), path.open(encoding="utf-8") as file:
        names = _read_header(file)
        frame = read_rows(file, names=names, quotechar="'", na_values="?", comment="%", skipinitialspace=True)
    for name in frame.select_dtypes(include=["object", "string"]):  # blanks after a value are not part of it
        values = frame[name].map(lambda value: value.strip() if isinstance(value, str) else value)
        frame[name] = values.mask(values == "?")
    return frame


def _read_header(file: TextIO) -> list[str]:
    """Return the names of the columns; afterwards `file` is at the first row."""
    names: list[str] = []
    while line := file.readline():
        text = line.strip()
        if text.lower() == "@data":
            return names
        if found := ATTRIBUTE.match(text):
            names.append(found[1].strip("'\""))
        elif text and not text.startswith("%") and not text.lower().startswith("@relation"):
            raise ValueError(f"its header has the invalid line '{shorten(text, 60)}'")
    raise ValueError("it has no line '@data'")
