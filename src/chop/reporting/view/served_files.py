"""Which file of a project a path in the browser means, and how it is sent."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

CONTENT_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".json": "application/json; charset=utf-8",
    ".csv": "text/csv; charset=utf-8",
    ".png": "image/png",
    # As text, which browsers show where they would save a type that they do not know.
    ".jsonl": "text/plain; charset=utf-8",
    ".toml": "text/plain; charset=utf-8",
    ".txt": "text/plain; charset=utf-8",
}
"""What is sent at all: results to look at, neither weights nor code."""


def find_file(root: Path, parts: tuple[str, ...]) -> Path | None:
    """The file at `parts` below `root`; None where there is none, or it is not one to send.

    Nothing hidden or temporary, which begin with a dot, nor `..`, nor what a link leads to outside of `root`.
    """
    if not parts or not all(map(_is_plain, parts)) or Path(parts[-1]).suffix not in CONTENT_TYPES:
        return None
    try:
        base = root.resolve()
        path = base.joinpath(*parts).resolve(strict=True)
        is_file = path.is_file()
    except (OSError, RuntimeError, ValueError):  # RuntimeError: links in a circle
        return None
    within = path.relative_to(base).parts if path.is_relative_to(base) else ()
    # Again, for what a link leads to: a picture that is a link to weights is not sent either.
    allowed = is_file and within and all(map(_is_plain, within)) and path.suffix in CONTENT_TYPES
    return path if allowed else None


def find_folder(root: Path, name: str) -> Path | None:
    """The folder of that name directly in `root`; None where there is none."""
    folder = root / name
    try:
        found = _is_plain(name) and folder.is_dir() and folder.resolve().is_relative_to(root.resolve())
    except (OSError, RuntimeError, ValueError):
        return None
    return folder if found else None


def list_files(folder: Path) -> Iterator[tuple[str, ...]]:
    """The parts of the path, from `folder` on, of every file that `find_file` gives."""
    for path in sorted(folder.rglob("*")):
        parts = path.relative_to(folder).parts
        if find_file(folder, parts) is not None:
            yield parts


def _is_plain(part: str) -> bool:
    """Whether a part of a path is a name, and one that an address and a page can spell."""
    try:
        part.encode()
    except UnicodeEncodeError:
        return False
    return bool(part) and not part.startswith(".") and not any(sign in part for sign in "/\\\0")
