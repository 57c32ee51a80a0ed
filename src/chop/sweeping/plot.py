"""The plot of a sweep: accuracy over bits per element."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import cycle, groupby
from typing import Any

from matplotlib.figure import Figure

from chop.display.plots import PAPER_STYLES, Plot, draw_line, label_axes, wrap_title


def sweep_figure(rows: Iterable[Mapping[str, Any]], title: str) -> Figure:
    """Return accuracy over bits, with a line per format through its most accurate settings.

    Types of elements are named at their markers. The first row is that of the model as it is.
    """
    baseline, *rows = rows
    figure = Plot(figsize=(6, 4), layout="constrained")
    axes = figure.subplots()
    by_format = groupby(rows, lambda row: row["format"].partition(" ")[0])
    for (name, settings), style in zip(by_format, cycle(PAPER_STYLES), strict=False):
        points = [(row["bits"], row["accuracy"], 0.0, row["format"].partition(" ")[2]) for row in settings]
        draw_line(axes, name, points, {**style, "markersize": 6, "linewidth": 1.5})
    unchanged = baseline.get("format", "unchanged")  # earlier versions did not store it
    axes.axhline(baseline["accuracy"], color="grey", linestyle=":", label=unchanged)
    label_axes(axes, "bits per element", "test accuracy", integer_x=True)
    axes.legend(frameon=False)
    figure.suptitle(wrap_title(title), fontsize=10)
    return figure
