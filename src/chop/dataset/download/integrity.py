"""Checksums of files, those that others publish and those that we note down."""

from __future__ import annotations

import hashlib
import os
from functools import lru_cache
from pathlib import Path


def digest(path: Path, algorithm: str) -> str:
    """The checksum of a file, in hex digits; read in pieces."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.new(algorithm, usedforsecurity=False)).hexdigest()


def record(path: Path, target: Path) -> None:
    """Note the sha256 of `path`, which is about to become `target`, beside it as `sha256sum` writes it."""
    note = _note_of(target)
    unfinished = note.with_name(f"{note.name}.part")
    unfinished.write_text(f"{digest(path, 'sha256')}  {target.name}\n", encoding="utf-8")
    os.replace(unfinished, note)


def verify_recorded(path: Path) -> None:
    """Raise where a file is not any more what was downloaded; one without a note is taken as it is."""
    note = _note_of(path)
    if not note.exists():
        return
    words = note.read_text(encoding="utf-8", errors="replace").split()
    status = path.stat()
    if not words or _sha256(path, status.st_size, status.st_mtime_ns) != words[0]:
        raise ValueError(
            f"'{path}' is damaged or was changed: its sha256 is not the one in '{note.name}', noted when it "
            "was downloaded; delete both to have it fetched again"
        )


@lru_cache(maxsize=64)
def _sha256(path: Path, size: int, changed_at: int) -> str:
    """The checksum, kept as long as size and time of the file stay the same."""
    return digest(path, "sha256")


def _note_of(path: Path) -> Path:
    return path.with_name(f"{path.name}.sha256")
