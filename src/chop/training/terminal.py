"""What is printed at the end of training or testing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tabulate import tabulate
from torch import Tensor

from chop.dataset import DatasetInfo
from chop.display.figures import figure
from chop.display.html import shown_in_notebook
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
