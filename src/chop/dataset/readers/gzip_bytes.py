"""The bytes of a file that may be compressed with gzip."""

from __future__ import annotations

import zlib
from pathlib import Path

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
