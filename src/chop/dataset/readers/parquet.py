"""Parquet, the column format of Arrow; needs pyarrow."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from chop.dataset.readers.errors import reading
from chop.display.extras import need

if TYPE_CHECKING:
    from pandas import DataFrame


def read_parquet(path: Path) -> DataFrame:
    """Return the table in a parquet file."""
    need("pyarrow", "reading parquet files")
    import pandas as pd

    with reading(path, "parquet file"):
        return pd.read_parquet(path, engine="pyarrow").reset_index(drop=True)
