"""The plot of a sweep: accuracy over bits per weight."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import cycle, groupby
from typing import Any

from matplotlib.figure import Figure

from chop.display.figures import figure as figure_of
from chop.display.plots import PAPER_STYLES, Plot, draw_line, label_axes, wrap_title
from chop.sweeping.table import ACCURACY_ERROR, BITS_WITH_SCALES, FLOAT_BITS


def sweep_figure(rows: Iterable[Mapping[str, Any]], title: str) -> Figure:
    """Return accuracy over bits, with a line per format through its most accurate settings, and standard errors.

    Bits are those of the table: per weight as it is stored, with its share of scales; per activation if no weights
    are quantised. Types of elements are named at their markers. The first row is that of the model as it is.
    """
    baseline, *rows = rows
    stored = (name for name in BITS_WITH_SCALES if any(row.get(name, FLOAT_BITS) < FLOAT_BITS for row in rows))
    bits = next(stored, "bits")
    figure = Plot(figsize=(6, 4), layout="constrained")
    axes = figure.subplots()
    by_format = groupby(rows, lambda row: row["format"].partition(" ")[0])
    for (name, settings), style in zip(by_format, cycle(PAPER_STYLES), strict=False):
        points = [
            (row[bits], row["accuracy"], row.get(ACCURACY_ERROR, 0.0), row["format"].partition(" ")[2])
            for row in settings
        ]
        draw_line(axes, name, points, {**style, "markersize": 6, "linewidth": 1.5})
    unchanged = baseline.get("format", "unchanged")  # earlier versions did not store it
    axes.axhline(baseline["accuracy"], color="grey", linestyle=":", label=unchanged)
    label_axes(
        axes,
        "bits per element" if bits == "bits" else figure_of(bits).column_title,
        "test accuracy",
        integer_x=True,
    )
    axes.legend(frameon=False)
    figure.suptitle(wrap_title(title), fontsize=10)
    return figure
