"""The bytes of a file, whether it is packed with gzip or not."""

from __future__ import annotations

import gzip
from pathlib import Path

from chop.dataset.readers.errors import reading

GZIP_MAGIC = b"\x1f\x8b"


def read_bytes(path: Path) -> bytes:
    """All bytes, unpacked where the first two say that they are packed."""
    with reading(path, "gzip file"):
        content = path.read_bytes()
        return gzip.decompress(content) if content.startswith(GZIP_MAGIC) else content
