"""The original files of a data set: in a user's folder, or downloaded to the cache folder."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from chop.dataset.download import DownloadError, Remote, fetch


def named_folder(path: str | os.PathLike[str], dataset: str) -> Path:
    """Return the user's folder; raise an error if it does not exist."""
    folder = Path(path).expanduser()
    if not folder.is_dir():
        raise ValueError(f"the folder '{folder}' for data set '{dataset}' does not exist")
    return folder


def find_file(folder: Path, name: str, dataset: str) -> Path:
    """Return the file called `name` in a folder, compressed or not."""
    for candidate in (folder / name, folder / f"{name}.gz"):
        if candidate.is_file():
            return candidate
    raise ValueError(f"the folder '{folder}' has no file '{name}' or '{name}.gz', which data set '{dataset}' needs")


def fetch_from_mirrors(remotes: Sequence[Remote], folder: Path, dataset: str, alternative: str) -> Path:
    """Return a file from the first server that has it; `alternative` says what path= accepts instead."""
    reasons = []
    for remote in remotes:
        try:
            return fetch(remote, folder)
        except DownloadError as error:
            reasons.append(str(error))
    raise DownloadError(
        f"data set '{dataset}' is not in '{folder}' and cannot be downloaded: {'; '.join(reasons)}; "
        f"if you have {alternative} give it as path="
    )
