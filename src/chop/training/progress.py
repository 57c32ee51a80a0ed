"""How far a run is: a bar on a terminal, a line an epoch elsewhere."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable

REFRESH = 0.1  # seconds between two drawings of the bar
BAR = 20  # characters


class Line:
    """One line on the standard error output: on a terminal it is drawn again and again."""

    def __init__(self, shown: bool = True) -> None:
        self._shown, self.is_terminal = shown, shown and sys.stderr.isatty()

    def draw(self, text: str) -> None:
        """What is to be seen for now; for terminals."""
        if self.is_terminal:
            sys.stderr.write(f"\r\x1b[K{text[: shutil.get_terminal_size().columns - 1]}")
            sys.stderr.flush()

    def say(self, text: str) -> None:
        """What stays, above the line that is drawn."""
        if self._shown:
            sys.stderr.write(f"\r\x1b[K{text}\n" if self.is_terminal else f"{text}\n")

    def close(self) -> None:
        self.draw("")


class Progress:
    """Shows loss, accuracy, learning rate, samples a second and the time left, on the standard error output."""

    def __init__(self, num_epochs: int, num_batches: int, done: int, shown: bool = True) -> None:
        """`done` of all batches were made by an earlier run."""
        self.num_epochs, self.num_batches = num_epochs, num_batches
        self._total, self._done, self._first = num_epochs * num_batches, done, done
        self._line = Line(shown)
        self._start = self._drawn = time.perf_counter()
        self._samples = 0

    def step(self, num_samples: int, read: Callable[[], str]) -> None:
        """A batch is done; `read` is called only when the bar is drawn."""
        self._done += 1
        self._samples += num_samples
        if self._line.is_terminal and (now := time.perf_counter()) - self._drawn > REFRESH:
            self._drawn = now
            self._draw(read())

    def epoch(self, line: str) -> None:
        """An epoch is done: its line stays, above the bar if there is one."""
        self._line.say(f"{line}  {self._pace()}")

    def close(self) -> None:
        self._line.close()

    @property
    def samples_per_second(self) -> float:
        return self._samples / max(1e-9, time.perf_counter() - self._start)

    def _draw(self, numbers: str) -> None:
        epoch, batch = divmod(self._done - 1, self.num_batches)
        text = (
            f"epoch {epoch + 1}/{self.num_epochs} {bar((batch + 1) / self.num_batches)} {numbers}  {self._pace()}"
        )
        self._line.draw(text)

    def _pace(self) -> str:
        elapsed = time.perf_counter() - self._start
        left = elapsed / max(1, self._done - self._first) * (self._total - self._done)
        return f"{_thousands(self.samples_per_second)} samples/s, {clock(left)} left"


def _thousands(number: float) -> str:
    return f"{number / 1000:.0f}k" if number >= 10_000 else f"{number:.0f}"


def bar(share: float) -> str:
    full = round(BAR * share)
    return "━" * full + "╌" * (BAR - full)


def clock(seconds: float) -> str:
    """`1:02:03`, or `2:03`."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
