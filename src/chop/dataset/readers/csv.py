"""CSV and TSV: text with a row per line and values separated by commas or tabs."""

from __future__ import annotations

import warnings
from csv import QUOTE_NONE
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from chop.dataset.readers.errors import reading

if TYPE_CHECKING:
    from pandas import DataFrame


def read_csv(path: Path) -> DataFrame:
    """Return the table in a CSV file, whose first line has the names of the columns."""
    with reading(path, "CSV file"), path.open(encoding="utf-8-sig", newline="") as file:
        return read_rows(file)


def read_tsv(path: Path) -> DataFrame:
    """Return the table in a TSV file: values are separated by tabs, and quotes are part of the text."""
    with reading(path, "TSV file"), path.open(encoding="utf-8-sig", newline="") as file:
        return read_rows(file, sep="\t", quoting=QUOTE_NONE)


def read_rows(file: TextIO, **options: Any) -> DataFrame:  # options of pandas.read_csv, which has many types
    """Return the rest of `file` as a table."""
    import pandas as pd  # here, because importing it takes a third of a second

    with warnings.catch_warnings():
        warnings.simplefilter("error", pd.errors.ParserWarning)  # about values without a column
        try:
            frame: DataFrame = pd.read_csv(file, low_memory=False, index_col=False, **options)
        except pd.errors.ParserWarning as error:
            raise ValueError("its rows have more values than there are columns") from error
    return frame
