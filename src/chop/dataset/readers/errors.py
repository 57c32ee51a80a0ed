"""One error message for all failures of a reader."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def reading(path: Path, kind: str) -> Iterator[None]:
    """Turn every error inside into a ValueError about `path`: corrupt files cause errors of all kinds."""
    try:
        yield
    except (FileNotFoundError, PermissionError, IsADirectoryError) as error:
        raise ValueError(f"'{path}' cannot be read: {error.strerror}") from error
    except Exception as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise ValueError(f"'{path}' is corrupt, or not a valid {kind}: {shorten(reason)}") from error


def shorten(text: str, length: int = 200) -> str:
    """Return a text of at most `length` characters; dots replace what is cut off."""
    return text if len(text) <= length else f"{text[: length - 3]}..."
