"""Choosing the reader of a data file."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from chop.dataset.readers.arrays import Arrays, read_hdf5, read_npz
from chop.dataset.readers.tables import read_arff, read_csv, read_parquet, read_tsv
from chop.files import check_regular

if TYPE_CHECKING:
    from pandas import DataFrame

Content: TypeAlias = "DataFrame | Arrays"

# By suffix; all but HDF5, which takes options.
_READERS: Mapping[str, Callable[[Path], Content]] = {
    ".npz": read_npz,
    ".csv": read_csv,
    ".tsv": read_tsv,
    ".parquet": read_parquet,
    ".pq": read_parquet,
    ".arff": read_arff,
}
_HDF5 = (".h5", ".hdf5")
KINDS = (*_READERS, *_HDF5)

# By the first bytes, for other suffixes: CERNBox calls its HDF5 file `....z`.
_MAGIC = {b"\x89HDF\r\n\x1a\n": ".h5", b"PAR1": ".parquet", b"PK\x03\x04": ".npz", b"@": ".arff", b"%": ".arff"}


def read_content(path: Path, table: str | None = None, columns: Sequence[str] = ()) -> Content:
    """Return the table or the arrays in `path`; `table` and `columns` select from an HDF5 file."""
    if not path.exists():
        raise ValueError(f"data file '{path}' does not exist")
    check_regular(path)
    kind = path.suffix.lower() if path.suffix.lower() in KINDS else _guess_kind(path)
    if kind in _HDF5:
        return read_hdf5(path, table, columns)
    if table is not None:
        raise ValueError(f"data file '{path}' is not an HDF5 file: hdf5_table='{table}' cannot be used")
    return _READERS[kind](path)


def _guess_kind(path: Path) -> str:
    if not path.is_file():
        raise ValueError(f"'{path}' is a folder, not a data file; supported files: {', '.join(KINDS)}")
    with path.open("rb") as file:
        beginning = file.read(8)
    for magic, kind in _MAGIC.items():
        if beginning.startswith(magic):
            return kind
    raise ValueError(f"data file '{path}' has an unknown format; supported: {', '.join(KINDS)}")
