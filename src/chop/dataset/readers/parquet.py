"""Parquet, the column format of Arrow; needs pyarrow."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from chop.dataset.readers.errors import check_expansion, reading
from chop.display.extras import need

if TYPE_CHECKING:
    from pandas import DataFrame


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
