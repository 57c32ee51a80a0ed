"""The common style of all plots."""

from __future__ import annotations

import io
import textwrap
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from chop.files import atomic_path

BLUE, VERMILION = "#0072b2", "#d55e00"
"""The two main colours, which colour-blind readers can tell apart (Okabe and Ito)."""
MORE_COLOURS = ("#009e73", "#cc79a7", "#e69f00")
PAPER_STYLES: tuple[dict[str, Any], ...] = tuple(
    {"color": colour, "marker": marker, "linestyle": dashes, "markersize": 3.5, "linewidth": 1.1}
    for colour, marker, dashes in zip(
        (BLUE, VERMILION, *MORE_COLOURS),
        ("o", "s", "^", "D", "v"),
        ("-", "--", "-.", (0, (6, 1)), (0, (3, 1, 1, 1, 1, 1))),
        strict=True,
    )
)
"""Lines that differ in grey too."""
DPI = 150


class Plot(Figure):
    """A figure of Matplotlib that notebooks show even if nothing has imported `pyplot`."""

    def _repr_png_(self) -> bytes:
        data = io.BytesIO()
        self.savefig(data, format="png", dpi=DPI)
        return data.getvalue()


def draw_line(
    axes: Axes, label: str, points: Iterable[tuple[float, float, float, str]], style: Mapping[str, Any]
) -> None:
    """Draw points (x, y, error of y, note) with a line through the highest one at each x.

    Notes are beside their markers, those of the highest points above, and those of the others below.
    """
    ordered = sorted(points)
    highest = {x: y for x, y, *_ in ordered}
    axes.plot(list(highest), list(highest.values()), label=label, **style)
    marks = {name: value for name, value in style.items() if name in ("color", "marker", "markersize")}
    for x, y, error, note in ordered:
        axes.errorbar(x, y, error or None, capsize=2, elinewidth=0.8, **marks)
        offset = (4, 5) if y == highest[x] else (4, -9)
        axes.annotate(note, (x, y), offset, textcoords="offset points", fontsize="x-small")


def label_axes(axes: Axes, x: str, y: str, *, integer_x: bool = False) -> None:
    """Name both axes, and draw a light grid instead of a frame; `integer_x`: ticks only at integers."""
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    if integer_x:
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.grid(alpha=0.25)
    axes.spines[["top", "right"]].set_visible(False)


def wrap_title(title: str, width: int = 70) -> str:
    """Break a title into lines of at most `width` characters."""
    return textwrap.fill(title, width)


def save_figure(figure: Figure, path: Path) -> None:
    """Write a plot atomically, in the format that the suffix of `path` names."""
    with atomic_path(path) as temporary:
        figure.savefig(temporary, dpi=DPI)
