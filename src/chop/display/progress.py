"""A line on stderr that shows progress: redrawn on a terminal, printed once elsewhere."""

from __future__ import annotations

import multiprocessing
import shutil
import sys
import threading
import time

SECONDS_PER_REDRAW = 0.1
SECONDS_PER_LINE = 30.0  # if there is no terminal
SECONDS_PER_CLOCK = 1.0  # between two times that a stage shows on a terminal
BAR_WIDTH = 20  # characters
CLEAR_LINE = "\r\x1b[K"


class StatusLine:
    """A line at the bottom of the terminal that is redrawn, with permanent lines above it.

    It stays visible while stderr is redirected, for example to keep what torch prints away from the terminal.
    """

    def __init__(self, shown: bool = True) -> None:
        self._shown, self._stream = shown, sys.stderr
        self.is_terminal = shown and self._stream.isatty()

    def draw(self, text: str) -> None:
        """Replace the line, cut to the width of the terminal; elsewhere nothing is printed."""
        if self.is_terminal:
            self._stream.write(f"{CLEAR_LINE}{text[: shutil.get_terminal_size().columns - 1]}")
            self._stream.flush()

    def print(self, text: str) -> None:
        """Print a permanent line above it."""
        if self._shown:
            self._stream.write(f"{CLEAR_LINE}{text}\n" if self.is_terminal else f"{text}\n")

    def close(self) -> None:
        """Remove the line."""
        self.draw("")


class ProgressBar:
    """A bar with the time left, or a count with the time spent if the total is not known; drawn from the start.

    If stderr is not a terminal, a line is printed every `SECONDS_PER_LINE`.
    """

    def __init__(self, title: str, total: int | None, shown: bool = True) -> None:
        self._title, self._total, self._done = title, total, 0
        self._line, self._shown = StatusLine(shown), shown
        self._start = self._drawn = time.perf_counter()
        self._line.draw(self._text(0.0))  # the first step may take long

    def step(self, count: int = 1) -> None:
        """Count what is done."""
        self._done += count
        now = time.perf_counter()
        wait = SECONDS_PER_REDRAW if self._line.is_terminal else SECONDS_PER_LINE
        if self._shown and now - self._drawn > wait:
            self._drawn = now
            show = self._line.draw if self._line.is_terminal else self._line.print
            show(self._text(now - self._start))

    def close(self) -> None:
        """Remove the bar."""
        self._line.close()

    def __enter__(self) -> ProgressBar:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _text(self, elapsed: float) -> str:
        if self._total is None:
            return f"{self._title} {self._done:,}, {clock(elapsed)}"
        share = min(1.0, self._done / max(1, self._total))
        text = f"{self._title} {bar(share)} {self._done:,}/{self._total:,}"
        if not self._done:
            return text
        return f"{text}, {clock(elapsed / self._done * max(0, self._total - self._done))} left"


class Stage:
    """A part of a command whose length is not known: its title and the time spent, from the first second on.

    A thread draws the line, because nothing is counted. If stderr is not a terminal, a line is printed every
    `SECONDS_PER_LINE`. Worker processes print nothing: the terminal belongs to the process that started them.
    """

    def __init__(self, title: str) -> None:
        self._title = title
        self._line = StatusLine(multiprocessing.parent_process() is None)
        self._finished = threading.Event()
        self._thread = threading.Thread(target=self._show, daemon=True)

    def __enter__(self) -> Stage:
        self._start = time.perf_counter()
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._finished.set()
        self._thread.join()
        self._line.close()

    def _show(self) -> None:
        wait = SECONDS_PER_CLOCK if self._line.is_terminal else SECONDS_PER_LINE
        show = self._line.draw if self._line.is_terminal else self._line.print
        while not self._finished.wait(wait):
            show(f"{self._title}, {clock(time.perf_counter() - self._start)}")


def bar(share: float) -> str:
    """Return a progress bar that is filled by a share between 0 and 1."""
    filled = round(BAR_WIDTH * share)
    return "━" * filled + "╌" * (BAR_WIDTH - filled)


def clock(seconds: float) -> str:
    """Return a duration as `1:02:03`, or `2:03` if it is shorter than an hour."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
