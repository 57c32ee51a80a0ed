"""Files of runs, read so that a damaged one is told and breaks nothing."""

from __future__ import annotations

import csv
import json
import tomllib
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeGuard

from chop.reporting.view.served_files import find_file

MAX_BYTES = 64 * 2**20
"""No file of a run that is shown as a table is larger; one that is would stall the page."""

LARGEST = 10**300  # a whole number, that still is one as a float
DEPTH = 12  # of tables in tables that are shown key by key


class DamagedError(ValueError):
    """A file does not hold what it should, in words for the page."""


def read_table(folder: Path, *parts: str) -> Mapping[str, Any]:
    """The JSON object or the TOML table in a file of a run; {} where there is no such file."""
    path = find_file(folder, parts)
    if path is None:
        return {}
    try:
        state = path.stat()
    except OSError:  # deleted just now
        return {}
    return _parse(path, state.st_mtime_ns, state.st_size)


@lru_cache(maxsize=4096)
def _parse(path: Path, changed: int, size: int) -> Mapping[str, Any]:
    """What is in a file, read again only when it has changed."""
    text = _text(path)
    try:
        value = tomllib.loads(text) if path.suffix == ".toml" else json.loads(text)
    except (ValueError, RecursionError) as error:
        raise DamagedError(f"{path.name} is damaged: {' '.join(str(error).split())}") from None
    if not isinstance(value, dict):
        raise DamagedError(f"{path.name} is damaged: it holds no table")
    return value


def read_csv(folder: Path, *parts: str) -> list[dict[str, str]]:
    """The rows of a CSV file of a run by the names in its first line; none where there is no such file."""
    path = find_file(folder, parts)
    try:
        rows = list(csv.DictReader(_text(path).splitlines())) if path is not None else []
    except csv.Error as error:
        raise DamagedError(f"{parts[-1]} is damaged: {error}") from None
    return [{key: value or "" for key, value in row.items() if key is not None} for row in rows]


def _text(path: Path) -> str:
    try:
        if path.stat().st_size > MAX_BYTES:
            raise DamagedError(f"{path.name} is not shown: it has more than {MAX_BYTES // 2**20} MiB")
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise DamagedError(f"{path.name} is damaged: it is no text") from None
    except OSError as error:
        raise DamagedError(f"{path.name} cannot be read: {error.strerror}") from None


def at(table: object, *keys: str) -> Any:
    """What stands below these keys, one in the other; None where one is missing."""
    for key in keys:
        if not isinstance(table, Mapping):
            return None
        table = table.get(key)
    return table


def number_at(table: object, *keys: str) -> float | None:
    """The number below these keys; None where there is none."""
    found = at(table, *keys)
    return found if is_number(found) else None


def text_at(table: object, *keys: str) -> str | None:
    """The text below these keys; None where there is none."""
    found = at(table, *keys)
    return found if isinstance(found, str) else None


def tables_at(table: object, *keys: str) -> list[Mapping[str, Any]]:
    """The tables in the list below these keys."""
    found = at(table, *keys)
    return [each for each in found if isinstance(each, Mapping)] if isinstance(found, list) else []


def is_number(value: object) -> TypeGuard[int | float]:
    """Whether a value is a number, and none that is too large to reckon with."""
    if isinstance(value, int):
        return not isinstance(value, bool) and abs(value) < LARGEST
    return isinstance(value, float)


def flattened(table: Mapping[str, Any], prefix: str = "", depth: int = DEPTH) -> Iterator[tuple[str, Any]]:
    """All values of nested tables by their keys, written as in TOML: `passes.quantize.by`."""
    for key, value in table.items():
        if isinstance(value, Mapping) and value and depth > 1:
            yield from flattened(value, f"{prefix}{key}.", depth - 1)
        else:
            yield f"{prefix}{key}", value
