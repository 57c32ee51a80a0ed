"""Which files of a project may be read by a browser."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from chop.files import CorruptFileError, read_json, read_text, read_toml
from chop.runs import RunFolder

CONTENT_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".json": "application/json; charset=utf-8",
    ".csv": "text/csv; charset=utf-8",
    ".png": "image/png",
    # As plain text, because browsers download files of unknown types instead of showing them.
    ".jsonl": "text/plain; charset=utf-8",
    ".toml": "text/plain; charset=utf-8",
    ".txt": "text/plain; charset=utf-8",
    ".md": "text/plain; charset=utf-8",
    ".tex": "text/plain; charset=utf-8",
}
"""The suffixes of all files that are served: results, but not weights or code."""


def find_file(root: Path, parts: tuple[str, ...]) -> Path | None:
    """Return the file at `parts` below `root`; None if there is no such file, or if it is not served.

    Hidden and temporary files, which start with a dot, are not served, nor are paths with `..` and links that lead
    outside of `root`.
    """
    if not parts or not all(map(is_allowed_name, parts)) or Path(parts[-1]).suffix not in CONTENT_TYPES:
        return None
    try:
        base = root.resolve()
        path = base.joinpath(*parts).resolve(strict=True)
        is_file = path.is_file()
    except (OSError, RuntimeError, ValueError):  # RuntimeError: links in a circle
        return None
    within = path.relative_to(base).parts if path.is_relative_to(base) else ()
    # The target of a link is checked as well: a link from plot.png to weights is not served.
    allowed = is_file and within and all(map(is_allowed_name, within)) and path.suffix in CONTENT_TYPES
    return path if allowed else None


def find_run_file(folder: RunFolder, path: Path) -> Path | None:
    """Return the resolved path of a file of a run, such as `folder.summary`; None if it may not be read."""
    return find_file(folder.path, path.relative_to(folder.path).parts)


def find_served_run(root: Path, name: str) -> RunFolder | None:
    """Return the run of that name directly in `root`; None if there is none, or if it is not served."""
    folder = RunFolder(root / name)
    try:
        is_inside = is_allowed_name(name) and folder.path.resolve().is_relative_to(root.resolve())
        return folder if is_inside and folder.is_run else None
    except (OSError, RuntimeError, ValueError):
        return None


def list_files(folder: Path) -> Iterator[tuple[str, ...]]:
    """Yield the path relative to `folder`, as a tuple of names, of every file that is served."""
    for path in sorted(folder.rglob("*")):
        parts = path.relative_to(folder).parts
        if find_file(folder, parts) is not None:
            yield parts


def is_allowed_name(name: str) -> bool:
    """Return whether `name` is a single visible file or folder name that can be written in an address."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return bool(name) and not name.startswith(".") and not any(character in name for character in "/\\\0")


MAX_BYTES = 64 * 2**20
"""Larger files are not shown: they would stall the page."""


def read_table(folder: RunFolder, path: Path, max_bytes: int = MAX_BYTES) -> Mapping[str, Any]:
    """Return the JSON object or TOML table in a file of a run; {} if there is no such file."""
    found = find_run_file(folder, path)
    if found is None:
        return {}
    try:
        state = found.stat()
    except OSError:  # deleted in the meantime
        return {}
    return _read_table(found, max_bytes, state.st_mtime_ns, state.st_size)


@lru_cache(maxsize=4096)
def _read_table(path: Path, max_bytes: int, modified: int, size: int) -> Mapping[str, Any]:
    """Read a file; the cache is valid until its modification time or size changes."""
    try:
        return read_toml(path, max_bytes) if path.suffix == ".toml" else read_json(path, max_bytes)
    except CorruptFileError as error:
        raise CorruptFileError(str(error).replace(str(path), path.name, 1)) from None
    except OSError as error:
        raise CorruptFileError(f"{path.name} cannot be read: {error.strerror}") from None


def read_csv(folder: RunFolder, path: Path) -> list[dict[str, str]]:
    """Return the rows of a CSV file of a run, by the names in its first line; [] if there is no such file."""
    found = find_run_file(folder, path)
    if found is None:
        return []
    try:
        rows = list(csv.DictReader(read_text(found, MAX_BYTES).splitlines()))
    except OSError as error:
        raise CorruptFileError(f"{path.name} cannot be read: {error.strerror}") from None
    except csv.Error as error:
        raise CorruptFileError(f"{path.name} is corrupt: {error}") from None
    return [{key: value or "" for key, value in row.items() if key is not None} for row in rows]
