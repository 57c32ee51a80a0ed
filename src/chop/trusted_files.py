"""Which Python files of users may run: those named on the command line or in a call, and those that ran before.

Files that are only named in a configuration file or a run folder may come from a stranger. They run if the user has
run them before: each file is recorded with its path and the SHA-256 of its content.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from chop.plugins import expect_content, is_loaded, paths_of, source_files

logger = logging.getLogger(__name__)


class UntrustedFileError(ValueError):
    """A configuration or run folder names Python files that the user has not run."""

    def __init__(self, problem: str, files: Iterable[Path]) -> None:
        self.problem, self.files = problem, tuple(files)
        calls = ", ".join(f"chop.trust({str(file)!r})" for file in self.files)
        super().__init__(f"{problem}; if you trust it: {calls}")


def trust(*files: Path | str) -> None:
    """Remember that the user runs these files with their present content."""
    known = _read_store()
    lines = [json.dumps(entry) for each in files for entry in sorted(_entries(Path(each)) - known)]
    if not lines:
        return
    try:
        _store().parent.mkdir(parents=True, exist_ok=True)
        with _store().open("a", encoding="utf-8") as file:
            file.write("".join(f"{line}\n" for line in lines))
    except OSError as error:
        logger.warning("cannot remember which Python files you run, in %s: %s", _store(), error.strerror)


def check_trusted(files: Iterable[Path], named_in: Path) -> None:
    """Raise UntrustedFileError if one of the files was neither recorded nor run in this process."""
    known = _read_store()
    present = [file for file in files if not is_loaded(file) and file.is_file()]
    unknown = [Path(os.path.abspath(file)) for file in present if not _entries(file) <= known]
    if not unknown:
        return
    file = unknown[0]
    has_changed = str(file) in {path for path, _ in known}
    reason = "has changed since you last ran it" if has_changed else "you have not run before"
    others = f", and {len(unknown) - 1} more" if len(unknown) > 1 else ""
    problem = f"{named_in} names {file}{others}, which {reason}"
    raise UntrustedFileError(problem, unknown)


def named_files(options: Mapping[str, Any]) -> list[Path]:
    """Return the Python files that options of a command name: plug-ins, and those of its model and data set."""
    references = (options.get("model"), options.get("dataset"))
    found = [file for name in references if isinstance(name, str) for file in source_files(name)]
    return [*options.get("plugins", ()), *options.get("trust", ()), *found]


def _entries(file: Path) -> set[tuple[str, str]]:
    """Return the paths and the hash of a file; its next import must find the same content.

    A missing file has no hash, and is reported when it is loaded.
    """
    digest = ""
    if file.is_file():
        content = file.read_bytes()
        expect_content(file, content)
        digest = hashlib.sha256(content).hexdigest()
    return {(str(path), digest) for path in paths_of(file)}


def _read_store() -> set[tuple[str, str]]:
    """Return the recorded files; a line that is not valid counts as not recorded."""
    entries = set()
    with suppress(OSError, UnicodeDecodeError):
        for line in _store().read_text(encoding="utf-8").splitlines():
            with suppress(ValueError):
                match json.loads(line):
                    case [str(path), str(digest)]:
                        entries.add((path, digest))
    return entries


def _store() -> Path:
    named = Path(os.environ.get("XDG_STATE_HOME", ""))
    folder = named if named.is_absolute() else Path.home() / ".local" / "state"
    return folder / "chop" / "trusted_files.jsonl"
