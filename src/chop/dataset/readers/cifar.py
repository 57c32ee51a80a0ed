"""The binary format of CIFAR-10: records of a label and 3 x 32 x 32 bytes."""

from __future__ import annotations

import tarfile
from collections.abc import Sequence
from pathlib import Path, PurePosixPath

import numpy as np
import numpy.typing as npt

from chop.dataset.readers.errors import check_expansion, reading

Bytes = npt.NDArray[np.uint8]
SHAPE = (3, 32, 32)
RECORD_SIZE = 1 + 3 * 32 * 32


def split_records(content: bytes, where: object) -> tuple[Bytes, Bytes]:
    """Return the images [n, 3, 32, 32] and their labels [n]."""
    if not content or len(content) % RECORD_SIZE:
        raise ValueError(f"'{where}' is corrupt: its {len(content)} bytes are not a multiple of {RECORD_SIZE}")
    records = np.frombuffer(content, dtype=np.uint8).reshape(-1, RECORD_SIZE)
    return records[:, 1:].reshape(-1, *SHAPE), records[:, 0]


def read_archive(path: Path, names: Sequence[str]) -> dict[str, bytes]:
    """Return the files called `names` from any folder of a tar archive (.gz or not), without unpacking it."""
    found: dict[str, bytes] = {}
    with reading(path, "tar archive"), tarfile.open(path) as archive:
        for member in archive:
            name = PurePosixPath(member.name).name
            file = archive.extractfile(member) if name in names else None
            if file is not None:
                check_expansion(member.size, path.stat().st_size, f"'{name}'")
                found[name] = file.read()
    return found
