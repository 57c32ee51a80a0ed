"""One sentence for whatever a reader stumbles over."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def reading(path: Path, kind: str) -> Iterator[None]:
    """Turn every error within into a ValueError about `path`; damaged files fail readers in any way."""
    try:
        yield
    except (FileNotFoundError, PermissionError, IsADirectoryError) as error:
        raise ValueError(f"'{path}' cannot be read: {error.strerror}") from error
    except Exception as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise ValueError(f"'{path}' is damaged, or is no {kind}: {shorten(reason)}") from error


def shorten(text: str, length: int = 200) -> str:
    """The beginning of a text, with dots where the rest was."""
    return text if len(text) <= length else f"{text[: length - 3]}..."
