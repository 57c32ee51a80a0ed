"""The binary formats of CIFAR-10 (records of a label and 3 x 32 x 32 bytes) and of MNIST (idx)."""

from __future__ import annotations

import math
import tarfile
import zlib
from collections.abc import Sequence
from pathlib import Path, PurePosixPath

import numpy as np
import numpy.typing as npt

from chop.dataset.readers.errors import LARGE, MAX_RATIO, check_expansion, reading

GZIP_MAGIC = b"\x1f\x8b"


def read_bytes(path: Path) -> bytes:
    """Return the bytes of a file, decompressed if its first two bytes are those of gzip."""
    with reading(path, "gzip file"):
        content = path.read_bytes()
        return _decompress(content) if content.startswith(GZIP_MAGIC) else content


def _decompress(content: bytes) -> bytes:
    """Decompress all members of a gzip file, within the limits of `check_expansion`."""
    result, rest = b"", content
    while rest:
        stream = zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)  # with the header of gzip
        limit = max(LARGE, MAX_RATIO * len(content)) - len(result) + 1
        result += stream.decompress(rest, limit)
        check_expansion(len(result), len(content), "it")
        if not stream.eof:
            raise ValueError("it ends too early")
        rest = stream.unused_data.lstrip(b"\0")
    return result


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
