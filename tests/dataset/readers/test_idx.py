"""The idx format of MNIST."""

from __future__ import annotations

import gzip
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chop.dataset.readers.image_files import read_idx
from dataset.data_samples import idx_bytes

shapes = st.lists(st.integers(0, 6), min_size=1, max_size=4)


def test_an_idx_file_by_hand(tmp_path: Path) -> None:
    path = tmp_path / "labels"
    path.write_bytes(bytes.fromhex("00000801 00000003 050004".replace(" ", "")))
    assert read_idx(path, num_dims=1).tolist() == [5, 0, 4]


@pytest.mark.slow
@settings(max_examples=30)
@given(shape=shapes, packed=st.booleans(), seed=st.integers(0, 99))
def test_idx_files_of_all_shapes_are_read_packed_and_unpacked(shape: list[int], packed: bool, seed: int) -> None:
    array = np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)
    content = idx_bytes(array)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "any name"
        path.write_bytes(gzip.compress(content, mtime=0) if packed else content)
        assert np.array_equal(read_idx(path, num_dims=len(shape)), array)


@pytest.mark.slow
@settings(max_examples=40)
@given(length=st.integers(0, 200), packed=st.booleans())
def test_a_truncated_idx_file_is_reported(length: int, packed: bool) -> None:
    content = idx_bytes(np.random.default_rng(0).integers(0, 256, (5, 6, 7), dtype=np.uint8))
    content = gzip.compress(content, mtime=0) if packed else content
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "images"
        path.write_bytes(content[:length])
        with pytest.raises(ValueError, match=r"images' is (corrupt|not an idx file)"):
            read_idx(path, num_dims=3)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is not an idx file of bytes with 1 dimension.s.: it begins with nothing"),
        (b"<html>", "it begins with 3c68746d"),
        (bytes.fromhex("0000080300000000"), "is not an idx file of bytes with 1 dimension"),
        (bytes.fromhex("00000d0100000000"), "is not an idx file of bytes"),  # floating-point numbers
        (bytes.fromhex("000008010000000205"), r"is corrupt: 1 bytes follow the sizes \[2\], not 2"),
        (bytes.fromhex("0000080100000001") + b"too much", r"8 bytes follow the sizes \[1\], not 1"),
        (gzip.compress(b"x" * 100, mtime=0)[:-9], "is corrupt, or not a valid gzip file"),
        (b"\x1f\x8b and then nonsense", "is corrupt, or not a valid gzip file"),
    ],
)
def test_an_invalid_idx_file_is_reported(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "labels"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=message):
        read_idx(path, num_dims=1)


def test_a_missing_file_is_reported(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="nowhere' cannot be read: No such file or directory"):
        read_idx(tmp_path / "nowhere", num_dims=1)
