"""A line on stderr that shows progress: redrawn on a terminal, printed once elsewhere."""

from __future__ import annotations

import shutil
import sys

SECONDS_PER_REDRAW = 0.1
BAR_WIDTH = 20  # characters


class StatusLine:
    """A line at the bottom of the terminal that is redrawn, with permanent lines above it."""

    def __init__(self, shown: bool = True) -> None:
        self._shown, self.is_terminal = shown, shown and sys.stderr.isatty()

    def draw(self, text: str) -> None:
        """Replace the line, cut to the width of the terminal; elsewhere nothing is printed."""
        if self.is_terminal:
            sys.stderr.write(f"\r\x1b[K{text[: shutil.get_terminal_size().columns - 1]}")
            sys.stderr.flush()

    def print(self, text: str) -> None:
        """Print a permanent line above it."""
        if self._shown:
            sys.stderr.write(f"\r\x1b[K{text}\n" if self.is_terminal else f"{text}\n")

    def close(self) -> None:
        """Remove the line."""
        self.draw("")


def bar(share: float) -> str:
    """Return a progress bar that is filled by a share between 0 and 1."""
    filled = round(BAR_WIDTH * share)
    return "━" * filled + "╌" * (BAR_WIDTH - filled)


def clock(seconds: float) -> str:
    """Return a duration as `1:02:03`, or `2:03` if it is shorter than an hour."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
