"""The progress of a download."""

from __future__ import annotations

import logging
import sys
import time

logger = logging.getLogger(__name__)

MEGABYTE = 1e6
STEP_IF_SIZE_UNKNOWN = 50 * MEGABYTE  # between two log lines


class Progress:
    """A line on the terminal that is updated; without a terminal, a log line per tenth of the file."""

    def __init__(self, name: str, done: int, total: int | None) -> None:
        self.name, self.start, self.total = name, done, total
        self.began = self.shown = time.monotonic()
        self.step = total / 10 if total else STEP_IF_SIZE_UNKNOWN
        self.next_line = done + self.step
        self.on_terminal, self.in_line = sys.stderr.isatty(), False
        logger.info("downloading %s (%s)%s", name, _size(total), f", resuming at {_size(done)}" if done else "")

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *failure: object) -> None:
        if self.in_line:
            sys.stderr.write("\n")

    def update(self, done: int) -> None:
        """Show that `done` bytes have arrived, if it is time for an update."""
        now = time.monotonic()
        if self.on_terminal and (now - self.shown > 0.2 or done == self.total):
            self.shown, self.in_line = now, True
            sys.stderr.write(f"\r{self._line(done, now)}\x1b[K")
            sys.stderr.flush()
        elif not self.on_terminal and done >= self.next_line:
            self.next_line += self.step
            logger.info("%s", self._line(done, now))

    def _line(self, done: int, now: float) -> str:
        speed = (done - self.start) / max(now - self.began, 1e-3)
        share = f"{100 * done / self.total:.0f} % of {_size(self.total)}" if self.total else _size(done)
        left = f", {(self.total - done) / speed:.0f} s left" if self.total and speed else ""
        return f"{self.name}: {share}, {speed / MEGABYTE:.1f} MB/s{left}"


def _size(num_bytes: int | None) -> str:
    return "size unknown" if num_bytes is None else f"{num_bytes / MEGABYTE:.1f} MB"
