"""The plot of a sweep: accuracy over bits per element."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import cycle, groupby
from operator import itemgetter

from matplotlib.figure import Figure

from chop.display.plots import BLUE, MORE_COLOURS, VERMILION, Plot, label_axes, wrap_title

Point = tuple[str, float, float]
"""The name of a format, bits per element, and accuracy."""


def sweep_figure(points: Iterable[Point], baseline: float, title: str, unchanged: str) -> Figure:
    """Return accuracy over bits, with a line per format through its most accurate settings."""
    figure = Plot(figsize=(6, 4), layout="constrained")
    axes = figure.subplots()
    by_format = groupby(points, itemgetter(0))
    for (name, of_format), colour in zip(by_format, cycle((BLUE, VERMILION, *MORE_COLOURS)), strict=False):
        settings = [(bits, accuracy) for _, bits, accuracy in of_format]
        axes.plot(*_best_of_each_width(settings), "o-", color=colour, label=name)
        axes.plot([bits for bits, _ in settings], [accuracy for _, accuracy in settings], "o", color=colour)
    axes.axhline(baseline, color="grey", linestyle="--", label=unchanged)
    label_axes(axes, "bits per element", "test accuracy", integer_x=True)
    axes.legend(frameon=False)
    figure.suptitle(wrap_title(title), fontsize=10)
    return figure


def _best_of_each_width(settings: Sequence[tuple[float, float]]) -> tuple[list[float], list[float]]:
    best = {bits: max(accuracy for each, accuracy in settings if each == bits) for bits, _ in sorted(settings)}
    return list(best), list(best.values())
