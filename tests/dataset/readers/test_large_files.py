"""Files that are small on disk and large in memory are refused before they are read."""

from __future__ import annotations

import gzip
import io
import tarfile
import zipfile
from collections.abc import Mapping
from pathlib import Path

import h5py
import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from chop.dataset.readers import errors, read_content
from chop.dataset.readers.image_files import read_archive, read_bytes

pytestmark = pytest.mark.slow

SIZE = 2**20


@pytest.fixture(autouse=True)
def _small_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Treat 100 kB as large, so that the tests need no large files."""
    monkeypatch.setattr(errors, "LARGE", 10**5)
    monkeypatch.setattr("chop.dataset.readers.image_files.LARGE", 10**5)


def test_an_npz_file_is_refused_before_it_is_read(tmp_path: Path) -> None:
    np.savez_compressed(tmp_path / "a.npz", x=np.zeros((SIZE, 8)), y=np.arange(4))
    with pytest.raises(
        ValueError, match=r"'x.npy' has [\d,]+ bytes in the file and would take 67,108,992 in memory"
    ):
        read_content(tmp_path / "a.npz")


def test_arrays_that_are_not_used_are_not_read(tmp_path: Path) -> None:
    generator = np.random.default_rng(0)
    np.savez(tmp_path / "a.npz", x=generator.normal(size=(20, 3)), y=np.arange(20) % 2, z=np.zeros(SIZE))
    with zipfile.ZipFile(tmp_path / "a.npz") as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    parts["z.npy"] = b"not an array"
    with zipfile.ZipFile(tmp_path / "b.npz", "w") as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    arrays = read_content(tmp_path / "b.npz")
    assert isinstance(arrays, Mapping)
    assert arrays["x"].shape == (20, 3)
    with pytest.raises(ValueError, match=r"b.npz' is corrupt, or not a valid .npz file"):
        arrays["z"]


def test_an_hdf5_file_is_refused_before_it_is_read(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("x", shape=(10**9, 100), dtype="f8", chunks=(1000, 100))  # holds nothing yet
        file["y"] = np.arange(4)
    with pytest.raises(ValueError, match=r"'/x' has 0 bytes in the file and would take 800,000,000,000 in memory"):
        read_content(tmp_path / "a.h5")


def test_a_parquet_file_is_refused_before_it_is_read(tmp_path: Path) -> None:
    parquet.write_table(pa.table({"x": np.zeros(SIZE), "y": np.zeros(SIZE)}), tmp_path / "a.parquet")
    with pytest.raises(ValueError, match=r"it has [\d,]+ bytes in the file and would take 16,777,216 in memory"):
        read_content(tmp_path / "a.parquet")


def test_gzip_stops_at_the_limit(tmp_path: Path) -> None:
    (tmp_path / "a.gz").write_bytes(gzip.compress(bytes(8 * SIZE)))
    with pytest.raises(ValueError, match=r"it has [\d,]+ bytes in the file and would take [\d,]+ in memory"):
        read_bytes(tmp_path / "a.gz")
    (tmp_path / "b.gz").write_bytes(gzip.compress(b"one ") + gzip.compress(b"two") + bytes(3))
    assert read_bytes(tmp_path / "b.gz") == b"one two"
    (tmp_path / "c.gz").write_bytes(gzip.compress(b"abc" * 100)[:-9])
    with pytest.raises(ValueError, match="it ends too early"):
        read_bytes(tmp_path / "c.gz")


def test_a_tar_archive_is_refused_before_it_is_read(tmp_path: Path) -> None:
    member = tarfile.TarInfo("data_batch_1.bin")
    member.size = 8 * SIZE
    with tarfile.open(tmp_path / "a.tar.gz", "w:gz") as archive:
        archive.addfile(member, io.BytesIO(bytes(member.size)))
    with pytest.raises(
        ValueError, match=r"'data_batch_1.bin' has [\d,]+ bytes in the file and would take 8,388,608"
    ):
        read_archive(tmp_path / "a.tar.gz", ["data_batch_1.bin"])
