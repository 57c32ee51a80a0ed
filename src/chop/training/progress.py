"""The progress of a training run: a bar on a terminal, one line per epoch elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable

from chop.display.progress import SECONDS_PER_REDRAW, StatusLine, bar, clock


class TrainingProgress:
    """Loss, accuracy, learning rate, samples per second and the time left, shown on stderr."""

    def __init__(self, num_epochs: int, num_batches: int, done: int, shown: bool = True) -> None:
        """Start at zero, or after the `done` batches of the run that is resumed; `num_batches` is per epoch."""
        self.num_epochs, self.num_batches = num_epochs, num_batches
        self._total, self._done, self._first = num_epochs * num_batches, done, done
        self._line = StatusLine(shown)
        self._start = self._drawn = time.perf_counter()
        self._samples = 0

    def step(self, num_samples: int, read_metrics: Callable[[], str]) -> None:
        """Count a batch; `read_metrics` is called only if the bar is redrawn."""
        self._done += 1
        self._samples += num_samples
        if self._line.is_terminal and (now := time.perf_counter()) - self._drawn > SECONDS_PER_REDRAW:
            self._drawn = now
            self._draw(read_metrics())

    def epoch(self, line: str) -> None:
        """Print the line of a finished epoch."""
        self._line.print(f"{line}  {self._pace()}")

    def close(self) -> None:
        """Remove the bar."""
        self._line.close()

    @property
    def samples_per_second(self) -> float:
        return self._samples / max(1e-9, time.perf_counter() - self._start)

    def _draw(self, metrics: str) -> None:
        epoch, batch = divmod(self._done - 1, self.num_batches)
        progress = bar((batch + 1) / self.num_batches)
        self._line.draw(f"epoch {epoch + 1}/{self.num_epochs} {progress} {metrics}  {self._pace()}")

    def _pace(self) -> str:
        elapsed = time.perf_counter() - self._start
        left = elapsed / max(1, self._done - self._first) * (self._total - self._done)
        return f"{_thousands(self.samples_per_second)} samples/s, {clock(left)} left"


def _thousands(number: float) -> str:
    return f"{number / 1000:.0f}k" if number >= 10_000 else f"{number:.0f}"
