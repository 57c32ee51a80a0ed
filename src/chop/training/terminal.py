"""What is printed at the end of training or testing."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence

from tabulate import tabulate
from torch import Tensor

from chop.dataset import DatasetInfo
from chop.display.figures import figure
from chop.display.html import shown_in_notebook
from chop.display.progress import SECONDS_PER_REDRAW, StatusLine, bar, clock
from chop.tasks import Evaluation
from chop.training.evaluation import class_names
from chop.training.loop import EpochMetrics

MAX_CLASSES_PRINTED = 20  # in a confusion matrix


def print_training(
    history: Sequence[EpochMetrics], best: EpochMetrics, test: Evaluation, info: DatasetInfo
) -> None:
    """Print the results of the best epoch."""
    rows = {
        "training": {"accuracy": best.train_accuracy, "loss": best.train_loss},
        "validation": {"accuracy": best.val_accuracy, "loss": best.val_loss},
        "test": test.metrics,
    }
    print_scores(f"data: {info.title}\nbest epoch: {best.epoch} of {history[-1].epoch}", rows)
    print_confusion(test.confusion, info)


def print_test(test: Evaluation, info: DatasetInfo) -> None:
    """Print the results of a test."""
    print_scores(f"data: {info.title}", {"test": test.metrics})
    print_confusion(test.confusion, info)


def print_scores(title: str, rows: Mapping[str, Mapping[str, float]]) -> None:
    """Print a table of metrics, with a row per name."""
    metrics = [figure(name) for name in next(iter(rows.values()))]
    cells = [[name, *(values[each.name] for each in metrics)] for name, values in rows.items()]
    print(f"\n{title}")
    print(tabulate(cells, headers=("", *(each.title for each in metrics)), floatfmt=".4f"))


def print_confusion(confusion: Tensor | None, info: DatasetInfo) -> None:
    """Print the confusion matrix, unless it has too many classes for a terminal."""
    names = class_names(info)
    if confusion is None or len(names) > MAX_CLASSES_PRINTED:
        return
    rows = [[name, *counts] for name, counts in zip(names, confusion.tolist(), strict=True)]
    print("\ntest samples by true class (rows) and predicted class (columns)")
    print(tabulate(rows, headers=("", *names)))


def print_grid(title: str, headers: Sequence[str], cells: Sequence[Sequence[str]]) -> None:
    """Print the table of a grid of training runs."""
    print(f"\n{title}")
    if not shown_in_notebook(headers, cells):
        print(tabulate(cells, headers=headers, disable_numparse=True, stralign="right"))


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
        rate = self.samples_per_second
        shown = f"{rate / 1000:.0f}k" if rate >= 10_000 else f"{rate:.0f}"
        return f"{shown} samples/s, {clock(left)} left"
