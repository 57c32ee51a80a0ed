"""The formats of MNIST and CIFAR-10."""

from __future__ import annotations

import gzip
import tempfile
from pathlib import Path

import numpy as np
import pytest
from data_samples import cifar_archive, cifar_bytes, cifar_files, idx_bytes, some_images
from hypothesis import given, settings
from hypothesis import strategies as st

from chop.dataset.readers.cifar import read_archive, split_records
from chop.dataset.readers.idx import read_idx

shapes = st.lists(st.integers(0, 6), min_size=1, max_size=4)


def test_an_idx_file_by_hand(tmp_path: Path) -> None:
    path = tmp_path / "labels"
    path.write_bytes(bytes.fromhex("00000801 00000003 050004".replace(" ", "")))
    assert read_idx(path, num_dims=1).tolist() == [5, 0, 4]


@settings(max_examples=30)
@given(shape=shapes, packed=st.booleans(), seed=st.integers(0, 99))
def test_idx_files_of_all_shapes_are_read_packed_and_unpacked(shape: list[int], packed: bool, seed: int) -> None:
    array = np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)
    content = idx_bytes(array)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "any name"
        path.write_bytes(gzip.compress(content, mtime=0) if packed else content)
        assert np.array_equal(read_idx(path, num_dims=len(shape)), array)


@settings(max_examples=40)
@given(length=st.integers(0, 200), packed=st.booleans())
def test_a_cut_idx_file_is_one_clear_error(length: int, packed: bool) -> None:
    content = idx_bytes(np.random.default_rng(0).integers(0, 256, (5, 6, 7), dtype=np.uint8))
    content = gzip.compress(content, mtime=0) if packed else content
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "images"
        path.write_bytes(content[:length])
        with pytest.raises(ValueError, match=r"images' is (damaged|no idx file)"):
            read_idx(path, num_dims=3)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is no idx file of bytes in 1 dimension.s.: it begins with nothing"),
        (b"<html>", "it begins with 3c68746d"),
        (bytes.fromhex("0000080300000000"), "is no idx file of bytes in 1 dimension"),
        (bytes.fromhex("00000d0100000000"), "is no idx file of bytes"),  # floating-point numbers
        (bytes.fromhex("000008010000000205"), r"is damaged: 1 bytes follow the sizes \[2\], not 2"),
        (bytes.fromhex("0000080100000001") + b"too much", r"8 bytes follow the sizes \[1\], not 1"),
        (gzip.compress(b"x" * 100, mtime=0)[:-9], "is damaged, or is no gzip file"),
        (b"\x1f\x8b and then nonsense", "is damaged, or is no gzip file"),
    ],
)
def test_what_is_no_idx_file_says_so(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "labels"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=message):
        read_idx(path, num_dims=1)


def test_a_missing_file_says_so(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="nowhere' cannot be read: No such file or directory"):
        read_idx(tmp_path / "nowhere", num_dims=1)


def test_records_of_cifar_hold_red_green_and_blue_planes() -> None:
    image = np.stack([np.full((32, 32), level, dtype=np.uint8) for level in (10, 20, 30)])
    image[1, 0, 2] = 99
    pixels, labels = split_records(bytes([7]) + image.tobytes(), "file")
    assert labels.tolist() == [7]
    assert pixels.shape == (1, 3, 32, 32)
    assert pixels[0, :, 5, 5].tolist() == [10, 20, 30]
    assert pixels[0, 1, 0, 2] == 99


@settings(max_examples=30)
@given(count=st.integers(0, 3), rest=st.integers(0, 3072))
def test_records_are_whole_or_an_error(count: int, rest: int) -> None:
    images = some_images(count + 1, (3, 32, 32))
    content = cifar_bytes(*images)[: 3073 * count + rest]
    if count and not rest:
        assert np.array_equal(split_records(content, "file")[0], images[0][:count])
    else:
        with pytest.raises(
            ValueError, match=f"'file' is damaged: its {len(content)} bytes are not made of records"
        ):
            split_records(content, "file")


def test_an_archive_gives_the_files_asked_for(tmp_path: Path) -> None:
    files = cifar_files(num_images=2)
    path = tmp_path / "archive.tar.gz"
    path.write_bytes(cifar_archive(files))
    assert read_archive(path, list(files)) == files


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.95])
def test_a_cut_archive_is_one_clear_error(tmp_path: Path, share: float) -> None:
    content = cifar_archive(cifar_files(num_images=2))
    path = tmp_path / "archive.tar.gz"
    path.write_bytes(content[: int(share * len(content))])
    with pytest.raises(ValueError, match=r"archive.tar.gz' is damaged, or is no tar archive: \w+"):
        read_archive(path, ["test_batch.bin"])
