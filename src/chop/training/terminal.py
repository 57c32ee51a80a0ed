"""What is printed and plotted at the end of a training or test."""

from __future__ import annotations

from collections.abc import Sequence

from tabulate import tabulate
from torch import Tensor

from chop.dataset import DatasetInfo
from chop.runs import RunFolder
from chop.training.loop import EpochMetrics
from chop.training.metrics import Evaluation, class_names

MAX_CLASSES_PRINTED = 20  # in a confusion matrix


def report_training(
    history: Sequence[EpochMetrics],
    best: EpochMetrics,
    test: Evaluation,
    model: str,
    info: DatasetInfo,
    folder: RunFolder,
) -> None:
    """Plot the curves and the confusion matrix, and print the results of the best epoch."""
    from chop.training.plots import plot_confusion, plot_curves  # here, because importing Matplotlib takes long

    rows = [
        ("training", best.train_accuracy, best.train_loss),
        ("validation", best.val_accuracy, best.val_loss),
        ("test", test.accuracy, test.loss),
    ]
    plot_curves(history, best, plot_title(model, info), folder.curves_plot)
    plot_confusion(test, info, plot_title(model, info), folder.confusion_plot)
    print_scores(f"data: {info.title}\nbest epoch: {best.epoch} of {history[-1].epoch}", rows)
    print_confusion(test.confusion, info)


def report_test(test: Evaluation, model: str, info: DatasetInfo, folder: RunFolder) -> None:
    """Plot the confusion matrix, and print it with the results."""
    from chop.training.plots import plot_confusion  # here, because importing Matplotlib takes long

    plot_confusion(test, info, plot_title(model, info), folder.confusion_plot)
    print_scores(f"data: {info.title}", [("test", test.accuracy, test.loss)])
    print_confusion(test.confusion, info)


def plot_title(model: str, info: DatasetInfo) -> str:
    """Return the title of the plots of a training."""
    return f"{model}, data: {info.title}"


def print_scores(title: str, rows: Sequence[tuple[str, float, float]]) -> None:
    """Print a table of `(name, accuracy, loss)`."""
    print(f"\n{title}")
    print(tabulate(rows, headers=("", "accuracy", "loss"), floatfmt=".4f"))


def print_confusion(confusion: Tensor, info: DatasetInfo) -> None:
    """Print the confusion matrix, unless it has too many classes for a terminal."""
    names = class_names(info)
    if len(names) > MAX_CLASSES_PRINTED:
        return
    rows = [[name, *counts] for name, counts in zip(names, confusion.tolist(), strict=True)]
    print("\ntest samples by true class (rows) and predicted class (columns)")
    print(tabulate(rows, headers=("", *names)))


def print_grid(title: str, headers: Sequence[str], cells: Sequence[Sequence[str]]) -> None:
    """Print the table of a grid of trainings."""
    print(f"\n{title}")
    print(tabulate(cells, headers=headers, disable_numparse=True, stralign="right"))
