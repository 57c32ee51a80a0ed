"""The bytes of a file that may be compressed with gzip."""

from __future__ import annotations

import gzip
from pathlib import Path

from chop.dataset.readers.errors import reading

GZIP_MAGIC = b"\x1f\x8b"


def read_bytes(path: Path) -> bytes:
    """Return the bytes of a file, decompressed if its first two bytes are those of gzip."""
    with reading(path, "gzip file"):
        content = path.read_bytes()
        return gzip.decompress(content) if content.startswith(GZIP_MAGIC) else content
