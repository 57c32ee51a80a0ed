"""Writes files atomically, and reads JSON and TOML files with a one-line error if they are corrupt."""

from __future__ import annotations

import json
import os
import stat
import time
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

STALE_SECONDS = 3600.0
"""After this time without a write, a temporary file is that of a killed process."""


MAX_RECORD_BYTES = 8 * 2**20
"""Size of the TOML files, and of the JSON files of a run, that commands read from every run of a project."""


class CorruptFileError(ValueError):
    """A file does not hold what it should."""


@contextmanager
def atomic_path(path: Path) -> Iterator[Path]:
    """Yield a temporary path to write to; it replaces `path` at the end, and is removed after an error."""
    temporary = path.with_name(f".{os.getpid()}.{path.name}")  # keeps the suffix, which some writers look at
    try:
        yield temporary
        os.replace(temporary, path)
    except OSError as error:
        if error.errno is None:
            raise
        raise OSError(error.errno, error.strerror, str(path)) from error
    finally:
        with suppress(OSError):  # the first error is the one to report
            temporary.unlink(missing_ok=True)


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Add the path to an OSError that has none: writing to an open file on a full disk raises one."""
    try:
        yield
    except OSError as error:
        if error.errno is None or error.filename is not None:
            raise
        raise OSError(error.errno, error.strerror, str(path)) from error


def write_bytes(path: Path, content: bytes | memoryview, *, sync: bool = False) -> None:
    """Write a file atomically; with `sync` it also survives a power failure."""
    with atomic_path(path) as temporary, temporary.open("wb") as file:
        file.write(content)
        if sync:
            file.flush()
            os.fsync(file.fileno())


def write_text(path: Path, text: str) -> None:
    """Write a UTF-8 text file atomically."""
    write_bytes(path, text.encode())


def write_json(path: Path, value: object, indent: int = 2) -> None:
    """Write a JSON file atomically."""
    write_text(path, json.dumps(value, indent=indent) + "\n")


def remove_temporary_files(folder: Path, *, only_stale: bool = False) -> None:
    """Delete what a process that was killed in the middle of an atomic write left in `folder`.

    With `only_stale`, files stay that a process which is still running, here or on another machine, may write.
    """
    for file in folder.glob(".*.*"):
        with suppress(OSError):  # another process deleted it, or it belongs to another user
            process = file.name.split(".")[1]
            if process.isdigit() and file.is_file():
                is_new = time.time() - file.stat().st_mtime < STALE_SECONDS
                if not (only_stale and (is_new or Path(f"/proc/{process}").exists())):
                    file.unlink(missing_ok=True)


NOT_REGULAR = "'{}' is a pipe or a device, not a file"


def check_regular(path: Path) -> None:
    """Raise ValueError for a pipe or a device, before a library opens it: it could wait or continue for ever."""
    if path.exists() and not (path.is_file() or path.is_dir()):
        raise CorruptFileError(NOT_REGULAR.format(path))


def open_regular(path: Path) -> BinaryIO:
    """Open a file to read it; a pipe or a device is an error, and does not stop this process."""
    at_once = getattr(os, "O_NONBLOCK", 0)
    file = open(path, "rb", opener=lambda name, flags: os.open(name, flags | at_once))  # noqa: SIM115  # caller closes
    if stat.S_ISREG(os.fstat(file.fileno()).st_mode):
        return file
    file.close()
    raise CorruptFileError(NOT_REGULAR.format(path))


def read_file(path: Path, max_bytes: int | None = None) -> bytes:
    """Return the content of a file; a pipe or a device is an error, and so is a file larger than `max_bytes`."""
    with open_regular(path) as file:
        content = file.read(-1 if max_bytes is None else max_bytes + 1)
    if max_bytes is not None and len(content) > max_bytes:
        raise CorruptFileError(f"{path} is not read: it is larger than {max_bytes // 2**20} MiB")
    return content


def read_text(path: Path, max_bytes: int | None = None) -> str:
    """Return the text in a UTF-8 file, as `read_file` does."""
    try:
        return read_file(path, max_bytes).decode()
    except UnicodeDecodeError as error:
        raise CorruptFileError(f"{path} is corrupt: {error}") from None


def read_json(path: Path, max_bytes: int | None = None) -> dict[str, Any]:
    """Return the JSON object in a file."""
    return parse_json(read_file(path, max_bytes), str(path))


def parse_json(content: bytes | str, source: str) -> dict[str, Any]:
    """Return the JSON object in a text; `source` names the text in error messages."""
    try:
        value = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise CorruptFileError(f"{source} is corrupt: {' '.join(str(error).split())}") from None
    if not isinstance(value, dict):
        raise CorruptFileError(f"{source} is corrupt: it does not hold an object")
    return value


def read_toml(path: Path, max_bytes: int = MAX_RECORD_BYTES) -> dict[str, Any]:
    """Return the table in a TOML file."""
    text = read_text(path, max_bytes)
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise CorruptFileError(f"{path} is corrupt: {' '.join(str(error).split())}") from None
