""".npz: NumPy's archive of arrays."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from chop.dataset.readers.errors import reading

Arrays = dict[str, npt.NDArray[Any]]


def read_npz(path: Path) -> Arrays:
    """Return all arrays by name; arrays of Python objects are rejected, because loading them could run code."""
    with reading(path, ".npz file of plain arrays"), path.open("rb") as file:
        archive = np.load(file, allow_pickle=False)
        if isinstance(archive, np.ndarray):
            raise ValueError("it holds one array without a name; save features and labels with np.savez")
        with archive:
            return {name: archive[name] for name in archive.files}
