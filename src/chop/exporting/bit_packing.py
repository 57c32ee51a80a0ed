"""Codes packed to their width, without gaps: the first code is in the lowest bits of the first byte."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def pack(codes: NDArray[np.int64], width: int) -> NDArray[np.uint8]:
    """Return the lowest `width` bits of each code as bytes."""
    bits = (codes.reshape(-1, 1) >> np.arange(width)) & 1
    return np.packbits(bits.astype(np.uint8), bitorder="little")


def unpack(packed: NDArray[np.uint8], width: int, count: int) -> NDArray[np.int64]:
    """Return `count` codes from bytes; all are 0 or above."""
    bits = np.unpackbits(packed, count=count * width, bitorder="little").reshape(count, width)
    return bits.astype(np.int64) @ (np.int64(1) << np.arange(width))
