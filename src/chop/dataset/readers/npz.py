""".npz: NumPy's archive of arrays."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from chop.dataset.readers.errors import check_expansion, reading

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
