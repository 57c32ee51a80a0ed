"""The binary format of CIFAR-10: a label and 3 x 32 x 32 bytes, again and again."""

from __future__ import annotations

import tarfile
from collections.abc import Sequence
from pathlib import Path, PurePosixPath

import numpy as np
import numpy.typing as npt

from chop.dataset.readers.errors import reading

Bytes = npt.NDArray[np.uint8]
SHAPE = (3, 32, 32)
RECORD = 1 + 3 * 32 * 32


def split_records(content: bytes, where: object) -> tuple[Bytes, Bytes]:
    """The images [n, 3, 32, 32] and their labels [n]."""
    if not content or len(content) % RECORD:
        raise ValueError(f"'{where}' is damaged: its {len(content)} bytes are not made of records of {RECORD}")
    records = np.frombuffer(content, dtype=np.uint8).reshape(-1, RECORD)
    return records[:, 1:].reshape(-1, *SHAPE), records[:, 0]


def read_archive(path: Path, names: Sequence[str]) -> dict[str, bytes]:
    """The files called `names` in a tar archive (.gz or not), in any folder of it; nothing is unpacked to disk."""
    found: dict[str, bytes] = {}
    with reading(path, "tar archive"), tarfile.open(path) as archive:
        for member in archive:
            name = PurePosixPath(member.name).name
            file = archive.extractfile(member) if name in names else None
            if file is not None:
                found[name] = file.read()
    return found
