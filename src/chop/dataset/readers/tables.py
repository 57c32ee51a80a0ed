"""Files that hold a table: CSV, TSV, ARFF (the text format of OpenML) and parquet (needs pyarrow)."""

from __future__ import annotations

import re
import warnings
from csv import QUOTE_NONE
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from chop.dataset.readers.errors import check_expansion, reading, shorten
from chop.display.extras import need

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


def read_parquet(path: Path) -> DataFrame:
    """Return the table in a parquet file."""
    need("pyarrow", "reading parquet files")
    import pandas as pd
    from pyarrow import parquet

    with reading(path, "parquet file"):
        with parquet.ParquetFile(path) as file:
            num_values = file.metadata.num_rows * file.metadata.num_columns
        check_expansion(8 * num_values, path.stat().st_size, "it")
        return pd.read_parquet(path, engine="pyarrow").reset_index(drop=True)
