"""One error message for all failures of a reader, and a limit of what a file may decompress to."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from chop.files import check_regular

LARGE = 2**28  # bytes; smaller data may be compressed in any ratio
MAX_RATIO = 200  # of large data in memory to its size in the file; pixels and measurements stay below 50


@contextmanager
def reading(path: Path, kind: str) -> Iterator[None]:
    """Turn every error inside into a ValueError about `path`: corrupt files cause errors of all kinds."""
    check_regular(path)
    try:
        yield
    except (FileNotFoundError, PermissionError, IsADirectoryError) as error:
        raise ValueError(f"'{path}' cannot be read: {error.strerror}") from error
    except Exception as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise ValueError(f"'{path}' is corrupt, or not a valid {kind}: {shorten(reason)}") from error


def check_expansion(size: int, stored: int, what: str) -> None:
    """Raise ValueError if data of `stored` bytes in a file would take much more memory, `size` bytes."""
    if size > max(LARGE, MAX_RATIO * stored):
        raise ValueError(f"{what} has {stored:,} bytes in the file and would take {size:,} in memory")


def shorten(text: str, length: int = 200) -> str:
    """Return a text of at most `length` characters; dots replace what is cut off."""
    return text if len(text) <= length else f"{text[: length - 3]}..."
