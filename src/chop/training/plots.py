"""Plots of a training run: its curves, its confusion matrix, and a grid of runs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from statistics import mean, stdev

from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from chop.dataset import DatasetInfo
from chop.display.plots import BLUE, VERMILION, Plot, label_axes, save_figure, wrap_title
from chop.tasks import Evaluation
from chop.training.evaluation import class_names
from chop.training.loop import EpochMetrics

TRAINING_COLOUR, VALIDATION_COLOUR = BLUE, VERMILION
MAX_EPOCHS_MARKED = 30  # above that, curves have no markers
MAX_CLASSES_NUMBERED = 12  # above that, the cells of a confusion matrix have no numbers
MAX_CLASSES_NAMED = 25  # above that, only some of the classes are named
MAX_NAME_LENGTH = 24  # characters of a class name
MAX_CONFUSION_INCHES = 13.25  # the size of the plot with 25 classes


def plot_curves(history: Sequence[EpochMetrics], best: EpochMetrics, title: str, path: Path) -> None:
    """Plot loss and accuracy by epoch, with the best epoch marked."""
    save_figure(curves_figure(history, best.epoch, title), path)


def curves_figure(history: Sequence[EpochMetrics], best_epoch: int, title: str) -> Plot:
    """Return the plot of loss and accuracy by epoch, with the best epoch marked."""
    figure = Plot(figsize=(10, 4), layout="constrained")
    left, right = figure.subplots(1, 2)
    epochs = [each.epoch for each in history]
    marker = "o" if len(history) <= MAX_EPOCHS_MARKED else ""
    for axes, metric in ((left, "loss"), (right, "accuracy")):
        for split, label, colour in (
            ("train", "training", TRAINING_COLOUR),
            ("val", "validation", VALIDATION_COLOUR),
        ):
            values = [getattr(each, f"{split}_{metric}") for each in history]
            axes.plot(epochs, values, color=colour, label=label, marker=marker, markersize=3.5)
        axes.axvline(best_epoch, color="0.6", linestyle=":", zorder=0, label=f"best epoch ({best_epoch})")
        label_axes(axes, "epoch", metric, integer_x=True)
        if len(history) == 1:
            axes.set_xlim(best_epoch - 1, best_epoch + 1)
    right.yaxis.set_major_formatter(PercentFormatter(1.0))
    right.legend(frameon=False)
    figure.suptitle(title, fontsize=10)
    return figure


def plot_confusion(test: Evaluation, info: DatasetInfo, title: str, path: Path) -> None:
    """Plot for each true class the share of its samples that was predicted as each class.

    The size of the plot is limited; there is none if there are so many classes that `test` has no matrix.
    """
    if test.confusion is None:
        return
    counts = test.confusion.double()
    shares = counts / counts.sum(dim=1, keepdim=True).clamp(min=1)
    names = [name[:MAX_NAME_LENGTH] for name in class_names(info)]
    side = min(max(5.0, 0.45 * len(names) + 2), MAX_CONFUSION_INCHES)
    figure = Figure(figsize=(side + 0.8, side), layout="constrained")
    axes = figure.subplots()
    image = axes.imshow(shares.numpy(), cmap="Blues", vmin=0, vmax=1)
    step = math.ceil(len(names) / MAX_CLASSES_NAMED)
    axes.set_xticks(range(0, len(names), step), names[::step], rotation=90 if max(map(len, names)) > 4 else 0)
    axes.set_yticks(range(0, len(names), step), names[::step])
    axes.set_xlabel("predicted class")
    axes.set_ylabel("true class")
    if len(names) <= MAX_CLASSES_NUMBERED:
        for row, line in enumerate(shares.tolist()):
            for column, share in enumerate(line):
                colour = "white" if share > 0.5 else "black"
                text = f"{share:.0%}\n{int(counts[row, column]):,}" if share else "·"
                axes.text(column, row, text, ha="center", va="center", color=colour, fontsize=8)
    bar = figure.colorbar(image, shrink=0.8, format=PercentFormatter(1.0), label="share of the true class")
    bar.outline.set_visible(False)
    figure.suptitle(wrap_title(title, int(12 * side)) + f"\ntest accuracy {test.accuracy:.2%}", fontsize=10)
    save_figure(figure, path)


def plot_grid(
    points: Sequence[tuple[str, Sequence[float], Sequence[float]]], varied: str, title: str, path: Path
) -> None:
    """Plot training and validation loss of each row of a grid; error bars are the standard deviation over seeds.

    A point is the label of a row, its training losses and its validation losses, one per seed.
    """
    figure = Figure(figsize=(max(6.0, 0.8 * len(points) + 2), 4), layout="constrained")
    axes = figure.subplots()
    positions = range(len(points))
    for column, (label, colour) in enumerate(
        (("training", TRAINING_COLOUR), ("validation", VALIDATION_COLOUR)), start=1
    ):
        losses: list[Sequence[float]] = [point[column] for point in points]  # type: ignore[misc]
        deviations = [stdev(each) if len(each) > 1 else 0.0 for each in losses]
        bars = deviations if any(deviations) else None
        means = [mean(each) for each in losses]
        axes.errorbar(positions, means, bars, fmt="o-", capsize=4, color=colour, label=label)
    names = [point[0] for point in points]
    axes.set_xticks(positions, names, rotation=45 if max(map(len, names)) > 8 else 0)
    axes.margins(x=0.1)
    label_axes(axes, varied, "loss after the last epoch")
    axes.legend(frameon=False)
    figure.suptitle(wrap_title(title), fontsize=10)
    save_figure(figure, path)
