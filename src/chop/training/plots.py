"""Pictures of a run: its curves, its confusion matrix, and a grid of runs."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from pathlib import Path
from statistics import mean, stdev

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, PercentFormatter

from chop.dataset import DatasetInfo
from chop.files import atomic_path
from chop.training.epoch import Epoch
from chop.training.metrics import Evaluation
from chop.training.terminal import class_names

TRAIN, VALIDATION = "#0072b2", "#d55e00"  # apart for colour-blind readers too
DPI = 150
MAX_NUMBERS = 12  # classes up to which each cell has its number


def draw_curves(history: Sequence[Epoch], best: Epoch, title: str, path: Path) -> None:
    """Loss and accuracy over the epochs, the best one marked."""
    figure = Figure(figsize=(10, 4), layout="constrained")
    left, right = figure.subplots(1, 2)
    epochs = [each.epoch for each in history]
    marker = "o" if len(history) <= 30 else ""
    for axes, what in ((left, "loss"), (right, "accuracy")):
        for part, colour in (("train", TRAIN), ("val", VALIDATION)):
            values = [getattr(each, f"{part}_{what}") for each in history]
            label = {"train": "training", "val": "validation"}[part]
            axes.plot(epochs, values, color=colour, label=label, marker=marker, markersize=3.5)
        axes.axvline(best.epoch, color="0.6", linestyle=":", zorder=0, label=f"best epoch ({best.epoch})")
        label_axes(axes, "epoch", what)
        if len(history) == 1:
            axes.set_xlim(best.epoch - 1, best.epoch + 1)
    right.yaxis.set_major_formatter(PercentFormatter(1.0))
    right.legend(frameon=False)
    figure.suptitle(title, fontsize=10)
    save_figure(figure, path)


def draw_confusion(test: Evaluation, info: DatasetInfo, title: str, path: Path) -> None:
    """The share of each true class that got each answer."""
    counts = test.confusion.double()
    shares = counts / counts.sum(dim=1, keepdim=True).clamp(min=1)
    names = class_names(info)
    side = max(5.0, 0.45 * len(names) + 2)
    figure = Figure(figsize=(side + 0.8, side), layout="constrained")
    axes = figure.subplots()
    image = axes.imshow(shares.numpy(), cmap="Blues", vmin=0, vmax=1)
    every = max(1, len(names) // 25)
    axes.set_xticks(range(0, len(names), every), names[::every], rotation=90 if max(map(len, names)) > 4 else 0)
    axes.set_yticks(range(0, len(names), every), names[::every])
    axes.set_xlabel("answer")
    axes.set_ylabel("true class")
    if len(names) <= MAX_NUMBERS:
        for row, line in enumerate(shares.tolist()):
            for column, share in enumerate(line):
                colour = "white" if share > 0.5 else "black"
                text = f"{share:.0%}\n{int(counts[row, column]):,}" if share else "·"
                axes.text(column, row, text, ha="center", va="center", color=colour, fontsize=8)
    bar = figure.colorbar(image, shrink=0.8, format=PercentFormatter(1.0), label="share of the true class")
    bar.outline.set_visible(False)
    figure.suptitle(wrapped(title, int(12 * side)) + f"\ntest accuracy {test.accuracy:.2%}", fontsize=10)
    save_figure(figure, path)


def draw_grid(
    points: Sequence[tuple[str, Sequence[float], Sequence[float]]], varied: str, title: str, path: Path
) -> None:
    """Training and validation losses of each row of a grid; bars are the standard deviation over seeds."""
    figure = Figure(figsize=(max(6.0, 0.8 * len(points) + 2), 4), layout="constrained")
    axes = figure.subplots()
    places = range(len(points))
    for column, (label, colour) in enumerate((("training", TRAIN), ("validation", VALIDATION)), 1):
        losses: list[Sequence[float]] = [point[column] for point in points]  # type: ignore[misc]
        spread = [stdev(each) if len(each) > 1 else 0.0 for each in losses]
        bars = spread if any(spread) else None
        axes.errorbar(places, [mean(each) for each in losses], bars, fmt="o-", capsize=4, color=colour, label=label)
    names = [point[0] for point in points]
    axes.set_xticks(places, names, rotation=45 if max(map(len, names)) > 8 else 0)
    axes.margins(x=0.1)
    label_axes(axes, varied, "loss after the last epoch")
    axes.legend(frameon=False)
    figure.suptitle(wrapped(title), fontsize=10)
    save_figure(figure, path)


def label_axes(axes: Axes, x: str, y: str) -> None:
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    if x == "epoch":
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.grid(alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)


def wrapped(title: str, width: int = 70) -> str:
    return textwrap.fill(title, width)


def save_figure(figure: Figure, path: Path) -> None:
    with atomic_path(path) as temporary:
        figure.savefig(temporary, dpi=DPI)
