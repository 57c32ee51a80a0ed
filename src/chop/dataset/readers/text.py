"""Plain text in UTF-8."""

from __future__ import annotations

from pathlib import Path

from chop.files import check_regular


def read_text(path: Path) -> str:
    """Return the text in a file, which must not be empty."""
    if not path.exists():
        raise ValueError(f"text file '{path}' does not exist")
    check_regular(path)
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(
            f"text file '{path}' is not UTF-8: byte {error.start} is {error.object[error.start]:#04x}"
        ) from error
    except OSError as error:
        raise ValueError(f"text file '{path}' cannot be read: {error.strerror}") from error
    if not text.strip():
        raise ValueError(f"text file '{path}' is empty")
    return text
