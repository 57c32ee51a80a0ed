"""Records and archives of CIFAR-10."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chop.dataset.readers.image_files import read_archive, split_records
from dataset.data_samples import cifar_archive, cifar_bytes, cifar_files, some_images


def test_records_have_red_green_and_blue_planes() -> None:
    image = np.stack([np.full((32, 32), level, dtype=np.uint8) for level in (10, 20, 30)])
    image[1, 0, 2] = 99
    pixels, labels = split_records(bytes([7]) + image.tobytes(), "file")
    assert labels.tolist() == [7]
    assert pixels.shape == (1, 3, 32, 32)
    assert pixels[0, :, 5, 5].tolist() == [10, 20, 30]
    assert pixels[0, 1, 0, 2] == 99


@pytest.mark.slow
@settings(max_examples=30)
@given(count=st.integers(0, 3), rest=st.integers(0, 3072))
def test_incomplete_records_are_an_error(count: int, rest: int) -> None:
    images = some_images(count + 1, (3, 32, 32))
    content = cifar_bytes(*images)[: 3073 * count + rest]
    if count and not rest:
        assert np.array_equal(split_records(content, "file")[0], images[0][:count])
    else:
        with pytest.raises(ValueError, match=f"'file' is corrupt: its {len(content)} bytes are not a multiple"):
            split_records(content, "file")


def test_the_requested_files_of_an_archive_are_read(tmp_path: Path) -> None:
    files = cifar_files(num_images=2)
    path = tmp_path / "archive.tar.gz"
    path.write_bytes(cifar_archive(files))
    assert read_archive(path, list(files)) == files


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.95])
def test_a_truncated_archive_is_reported(tmp_path: Path, share: float) -> None:
    content = cifar_archive(cifar_files(num_images=2))
    path = tmp_path / "archive.tar.gz"
    path.write_bytes(content[: int(share * len(content))])
    with pytest.raises(ValueError, match=r"archive.tar.gz' is corrupt, or not a valid tar archive: \w+"):
        read_archive(path, ["test_batch.bin"])
