"""The plot of a sweep: accuracy over bits per element."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import cycle, groupby
from typing import Any

from matplotlib.figure import Figure

from chop.display.plots import BLUE, MORE_COLOURS, VERMILION, Plot, label_axes, wrap_title


def sweep_figure(rows: Iterable[Mapping[str, Any]], title: str) -> Figure:
    """Return accuracy over bits, with a line per format through its most accurate settings.

    The first row is that of the model as it is.
    """
    baseline, *rows = rows
    figure = Plot(figsize=(6, 4), layout="constrained")
    axes = figure.subplots()
    by_format = groupby(rows, lambda row: row["format"].partition(" ")[0])
    for (name, of_format), colour in zip(by_format, cycle((BLUE, VERMILION, *MORE_COLOURS)), strict=False):
        settings = [(row["bits"], row["accuracy"]) for row in of_format]
        best = {bits: max(accuracy for each, accuracy in settings if each == bits) for bits, _ in sorted(settings)}
        axes.plot(list(best), list(best.values()), "o-", color=colour, label=name)
        axes.plot([bits for bits, _ in settings], [accuracy for _, accuracy in settings], "o", color=colour)
    unchanged = baseline.get("format", "unchanged")  # earlier versions did not store it
    axes.axhline(baseline["accuracy"], color="grey", linestyle="--", label=unchanged)
    label_axes(axes, "bits per element", "test accuracy", integer_x=True)
    axes.legend(frameon=False)
    figure.suptitle(wrap_title(title), fontsize=10)
    return figure
