"""Files that hold arrays: NumPy's .npz, and HDF5 (with h5py), which may also hold tables, arrays of records."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from chop.dataset.readers.errors import check_expansion, reading
from chop.display.extras import need
from chop.registry import closest

if TYPE_CHECKING:
    from pandas import DataFrame


Arrays = Mapping[str, npt.NDArray[Any]]
KIND = ".npz file of plain arrays"


@dataclass(frozen=True)
class NpzArrays(Mapping[str, npt.NDArray[Any]]):
    """The arrays of an archive, each read when it is asked for."""

    path: Path
    names: tuple[str, ...]

    def __getitem__(self, name: str) -> npt.NDArray[Any]:
        if name not in self.names:
            raise KeyError(name)
        with reading(self.path, KIND), np.load(self.path, allow_pickle=False) as archive:
            array = archive[name]
            if not isinstance(array, np.ndarray):  # NumPy returns the bytes of other files
                raise ValueError(f"'{name}' is not an array")
            return array

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)


def read_npz(path: Path) -> Arrays:
    """Return all arrays by name; arrays of Python objects are rejected, because loading them could run code."""
    with reading(path, KIND), path.open("rb") as file:
        archive = np.load(file, allow_pickle=False)
        if isinstance(archive, np.ndarray):
            raise ValueError("it holds one array without a name; save features and labels with np.savez")
        with archive:
            for each in archive.zip.infolist():
                check_expansion(each.file_size, each.compress_size, f"'{each.filename}'")
            return NpzArrays(path, tuple(archive.files))


def read_hdf5(path: Path, table: str | None = None, columns: Sequence[str] = ()) -> DataFrame | Arrays:
    """Return the table called `table`, or the only one in the file; if a file has none, its arrays.

    With `columns`, only these are read, if the table has them.
    """
    h5py = need("h5py", "reading HDF5 files")
    with reading(path, "HDF5 file"), h5py.File(path, "r") as file:
        kinds = _list_arrays(file)
        elsewhere = [name for name in kinds if file[name].is_virtual or file[name].external]
    tables = [name for name, is_table in kinds.items() if is_table]
    chosen = _pick_table(path, table, tables) if tables or table else None
    for name in elsewhere:  # any file of the machine, or a pipe
        if chosen in (None, name):
            raise ValueError(f"'{path}': the values of '{name}' are in other files; save them in the file itself")
    with reading(path, "HDF5 file"), h5py.File(path, "r") as file:
        if chosen is None:
            return {name: _checked(file[name])[()] for name in kinds}
        return _read_records(_checked(file[chosen]), columns)


def _checked(array: Any) -> Any:
    """Return an array of a file, unless it is much larger than what the file holds of it."""
    check_expansion(array.nbytes, array.id.get_storage_size(), f"'{array.name}'")
    return array


def _list_arrays(file: Any) -> dict[str, bool]:  # an h5py.File; h5py has no types
    """Return the names of the arrays in all groups, and whether their items are records."""
    arrays = {}

    def note(name: str, item: Any) -> None:
        if hasattr(item, "dtype"):
            arrays[name] = item.dtype.names is not None

    file.visititems(note)
    return arrays


def _pick_table(path: Path, table: str | None, tables: list[str]) -> str:
    if table is not None and table not in tables:
        raise ValueError(f"'{path}' has no table '{table}'; {closest(table, tables)}")
    if table is None and len(tables) > 1:
        raise ValueError(f"'{path}' has several tables: choose one with hdf5_table=; they are {', '.join(tables)}")
    return table if table is not None else tables[0]


def _read_records(records: Any, columns: Sequence[str]) -> DataFrame:
    import pandas as pd

    names = [name for name in records.dtype.names if name in columns or not columns]
    wide = [name for name in names if records.dtype[name].shape]
    if wide:
        raise ValueError(f"column '{wide[0]}' has more than one value per row")
    content = records.fields(names)[()] if names else {}
    return pd.DataFrame({name: content[name] for name in names})
