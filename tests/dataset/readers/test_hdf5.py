"""HDF5 files can name other files, which are not read."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from chop.dataset.readers.arrays import read_hdf5

RECORD = np.dtype([("a", "f4"), ("b", "f4")])


def add_virtual(file: Any, name: str, source: str, dtype: Any) -> None:
    layout = h5py.VirtualLayout((4,), dtype)
    layout[:] = h5py.VirtualSource(source, "x", (4,), dtype)
    file.create_virtual_dataset(name, layout)


@pytest.mark.parametrize("source", ["secret.bin", "pipe"])
@pytest.mark.parametrize("dtype", ["f4", RECORD])
@pytest.mark.parametrize("kind", ["external", "virtual", "virtual, in this file"])
def test_values_in_other_files_are_refused(tmp_path: Path, kind: str, dtype: Any, source: str) -> None:
    (tmp_path / "secret.bin").write_bytes(bytes(32))
    os.mkfifo(tmp_path / "pipe")
    path = tmp_path / "data.h5"
    with h5py.File(path, "w") as file:
        file["y"] = np.arange(4)
        if kind == "external":
            file.create_dataset("values", (4,), dtype, external=str(tmp_path / source))
        else:
            add_virtual(file, "values", "." if "this" in kind else str(tmp_path / source), dtype)
    with pytest.raises(ValueError, match=r"data.h5': the values of 'values' are in other files; save them in the"):
        read_hdf5(path)


def test_another_table_of_the_file_is_read(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "data.h5", "w") as file:
        file["here"] = np.ones(4, RECORD)
        add_virtual(file, "elsewhere", "other.h5", RECORD)
    assert len(read_hdf5(tmp_path / "data.h5", "here")) == 4


def test_links_to_other_files_are_not_followed(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with h5py.File(tmp_path / "data.h5", "w") as file:
        file["x"] = np.ones((4, 2))
        file["outside"] = h5py.ExternalLink(str(tmp_path / "pipe"), "/x")
        file["nowhere"] = h5py.SoftLink("/missing")
        file["again"] = h5py.SoftLink("/x")
    assert list(read_hdf5(tmp_path / "data.h5")) == ["x"]
