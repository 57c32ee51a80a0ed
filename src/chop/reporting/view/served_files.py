"""Which files of a project may be read by a browser."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

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
