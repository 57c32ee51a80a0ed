"""What a user sees at the end: tables, and where the pictures are."""

from __future__ import annotations

from collections.abc import Sequence

from tabulate import tabulate
from torch import Tensor

from chop.dataset import DatasetInfo
from chop.runs import RunFolder
from chop.training.epoch import Epoch
from chop.training.metrics import Evaluation

MAX_CLASSES = 20  # of a confusion matrix that is printed


def report_training(
    history: Sequence[Epoch], best: Epoch, test: Evaluation, model: str, info: DatasetInfo, folder: RunFolder
) -> None:
    """Draws the curves and the confusion matrix, and prints the best epoch, its test and the matrix."""
    from chop.training.plots import draw_confusion, draw_curves

    rows = [
        ("training", best.train_accuracy, best.train_loss),
        ("validation", best.val_accuracy, best.val_loss),
        ("test", test.accuracy, test.loss),
    ]
    draw_curves(history, best, picture_title(model, info), folder.curves_plot)
    draw_confusion(test, info, picture_title(model, info), folder.confusion_plot)
    show_table(f"data: {info.title}\nbest epoch: {best.epoch} of {history[-1].epoch}", rows)
    show_confusion(test.confusion, info)


def report_test(test: Evaluation, model: str, info: DatasetInfo, folder: RunFolder) -> None:
    """Draws the confusion matrix, and prints it and the result of a test."""
    from chop.training.plots import draw_confusion

    draw_confusion(test, info, picture_title(model, info), folder.confusion_plot)
    show_table(f"data: {info.title}", [("test", test.accuracy, test.loss)])
    show_confusion(test.confusion, info)


def picture_title(model: str, info: DatasetInfo) -> str:
    return f"{model}, data: {info.title}"


def show_table(title: str, rows: Sequence[tuple[str, float, float]]) -> None:
    print(f"\n{title}")
    print(tabulate(rows, headers=("", "accuracy", "loss"), floatfmt=".4f"))


def show_confusion(confusion: Tensor, info: DatasetInfo) -> None:
    """The confusion matrix as a table, where the classes are few enough for a screen."""
    names = class_names(info)
    if len(names) > MAX_CLASSES:
        return
    rows = [[name, *counts] for name, counts in zip(names, confusion.tolist(), strict=True)]
    print("\ntest samples, by true class (rows) and answer (columns)")
    print(tabulate(rows, headers=("", *names)))


def class_names(info: DatasetInfo) -> Sequence[str]:
    return info.class_names or [str(number) for number in range(info.num_classes)]
