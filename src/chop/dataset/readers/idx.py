"""The idx format of MNIST: a magic number, sizes, then bytes."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import numpy.typing as npt

from chop.dataset.readers.gzip_bytes import read_bytes

UNSIGNED_BYTE = 0x08


def read_idx(path: Path, num_dims: int) -> npt.NDArray[np.uint8]:
    """Return the unsigned bytes in `path` (.gz or not) as an array of `num_dims` dimensions."""
    content = read_bytes(path)
    if content[:4] != bytes([0, 0, UNSIGNED_BYTE, num_dims]):
        found = content[:4].hex() or "nothing"
        raise ValueError(
            f"'{path}' is not an idx file of bytes with {num_dims} dimension(s): it begins with {found}"
        )
    start = 4 + 4 * num_dims
    sizes = [int.from_bytes(content[at : at + 4], "big") for at in range(4, start, 4)]
    if len(content) != start + math.prod(sizes):
        raise ValueError(
            f"'{path}' is corrupt: {max(len(content) - start, 0)} bytes follow the sizes {sizes}, "
            f"not {math.prod(sizes)}"
        )
    return np.frombuffer(content, dtype=np.uint8, offset=start).reshape(sizes)
