"""The file that the option `--output` stands for, checked before the work of a command begins."""

from __future__ import annotations

import os
from pathlib import Path

from chop.display.launcher import option_name


def output_file(given: Path, name: str) -> Path:
    """Return `given`, or a file called `name` in it if it is a folder.

    Raises ValueError if the folder of the file does not exist or cannot be written.
    """
    path = given / name if given.is_dir() else given
    folder = path.absolute().parent
    if not folder.exists():
        raise ValueError(f"the folder '{folder}' does not exist; create it, or choose another file")
    if not (folder.is_dir() and os.access(folder, os.W_OK)):
        raise ValueError(f"cannot write in '{folder}'; choose another file with {option_name('output')}")
    return path
