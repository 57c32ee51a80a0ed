"""Reading the files of a run for a page: a corrupt file is reported on the page and does not stop the server."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from chop.files import CorruptFileError, read_json, read_text, read_toml
from chop.reporting.view.served_files import find_run_file
from chop.runs import RunFolder

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
