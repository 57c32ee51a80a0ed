"""Checksums of downloaded files, published or recorded by us."""

from __future__ import annotations

import hashlib
import os
from functools import lru_cache
from pathlib import Path


def digest(path: Path, algorithm: str) -> str:
    """Return the checksum of a file in hex digits, without reading it at once."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.new(algorithm, usedforsecurity=False)).hexdigest()


def record(path: Path, target: Path) -> None:
    """Write the sha256 of `path`, which will be renamed to `target`, in the format of `sha256sum`."""
    record_file = _record_file(target)
    unfinished = record_file.with_name(f"{record_file.name}.part")
    unfinished.write_text(f"{digest(path, 'sha256')}  {target.name}\n", encoding="utf-8")
    os.replace(unfinished, record_file)


def verify_recorded(path: Path) -> None:
    """Raise an error if a file differs from what was downloaded; a file without a record is accepted."""
    record_file = _record_file(path)
    if not record_file.exists():
        return
    words = record_file.read_text(encoding="utf-8", errors="replace").split()
    status = path.stat()
    if not words or _sha256(path, status.st_size, status.st_mtime_ns) != words[0]:
        raise ValueError(
            f"'{path}' is corrupt or was changed: its sha256 differs from '{record_file.name}', which was recorded "
            "after the download; delete both files to download it again"
        )


@lru_cache(maxsize=64)
def _sha256(path: Path, size: int, changed_at: int) -> str:
    """Return the checksum; it is cached until size or time of the file change."""
    return digest(path, "sha256")


def _record_file(path: Path) -> Path:
    return path.with_name(f"{path.name}.sha256")
