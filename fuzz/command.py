"""Running `ch` in this process, for areas that check what users see."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import patch

from matplotlib.figure import Figure

from chop import cli

MAX_MESSAGE = 1000  # characters of an error message


@dataclass(frozen=True)
class Outcome:
    """What a command returned and printed."""

    code: int
    out: str
    err: str

    @property
    def message(self) -> str:
        """The error message, or an empty string."""
        return next((line for line in self.err.splitlines() if line.startswith("ch: error: ")), "")


def run_ch(words: Sequence[str], folder: Path) -> Outcome:
    """Run `ch` with the user's folders in `folder`, and check what holds for every command.

    The exit code is 0 or 2. After an error there is one line about it, of at most MAX_MESSAGE characters, and the
    files of the current folder are those from before, except for a finished run that the message names.
    """
    before = _files(Path.cwd())
    out, err = io.StringIO(), io.StringIO()
    with _user_folders(folder), redirect_stdout(out), redirect_stderr(err), patch.object(Figure, "savefig", _draw):
        code = cli.main(words)
    outcome = Outcome(code, out.getvalue(), err.getvalue())
    assert code in (0, 2), f"exit code {code}"
    if code == 2:
        lines = [line for line in outcome.err.splitlines() if line.startswith("ch: error: ")]
        assert len(lines) == 1, f"{len(lines)} error lines: {outcome.err[-2000:]}"
        assert len(outcome.message) <= MAX_MESSAGE, f"a message of {len(outcome.message)} characters"
        new = _files(Path.cwd()) - before
        kept = {Path(word).resolve() for word in outcome.message.split() if (Path(word) / "summary.json").is_file()}
        new = {path for path in new if not kept & {path, *path.parents}}
        left = sorted(str(path) for path in new if path.is_file() or path.parent != Path.cwd())
        assert not left, f"files left after '{outcome.message}': {left[:5]}"
    return outcome


@contextmanager
def _user_folders(folder: Path) -> Iterator[None]:
    """Use folders of the case for downloads and state, and no network."""
    own = {"CHOP_OFFLINE": "1", "CHOP_CACHE": str(folder / "cache"), "XDG_STATE_HOME": str(folder / "state")}
    with patch.dict(os.environ, own):
        yield


def _draw(figure: Figure, path: Path, **options: object) -> None:
    """Write the first bytes of a plot only: drawing takes longer than the rest of a case."""
    path.write_bytes(b"\x89PNG")


def _files(folder: Path) -> set[Path]:
    users = (folder / "cache", folder / "state")
    return {path for path in folder.rglob("*") if not any(path.is_relative_to(each) for each in users)}
