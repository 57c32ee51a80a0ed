"""The Pareto plot: accuracy over cost of all trials."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import cycle
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter, NullFormatter, PercentFormatter

from chop.display.plots import BLUE, MORE_COLOURS, VERMILION, label_axes, save_figure, wrap_title
from chop.searching.evaluation.objectives import known_metrics
from chop.searching.results.results import Results

BASELINE_COLOURS = (VERMILION, *MORE_COLOURS)
"""One per format; colour-blind readers can tell them apart."""
MIN_RATIO_FOR_LOG = 10
"""The cost axis is logarithmic if the largest cost is more than this many times the smallest."""


def draw_front(results: Results, title: str, path: Path) -> None:
    """Plot accuracy over the first cost: all trials, the front, and the uniform baselines with their widths."""
    figure = Figure(figsize=(8, 5), layout="constrained")
    axes = figure.subplots()
    cost = results.cost.name
    _plot(axes, cost, (each.metrics for each in results.complete), ".", color="0.7", label="trials", zorder=1)
    _plot(axes, cost, (each.metrics for each in results.front), "o", color=BLUE, label="front", zorder=3)
    _draw_baselines(axes, results, cost)
    axes.axhline(results.original["accuracy"], color="0.6", linestyle=":", zorder=0, label="original model")
    axes.yaxis.set_major_formatter(PercentFormatter(1.0))
    shown = [each.metrics for each in results.complete] + [each.metrics for each in results.baselines]
    _set_cost_scale(axes, [metrics[cost] for metrics in shown])
    label_axes(axes, known_metrics()[cost].axis_title, "accuracy")
    axes.legend(frameon=False, loc="lower right")
    figure.suptitle(wrap_title(title), fontsize=10)
    save_figure(figure, path)


def _draw_baselines(axes: Axes, results: Results, cost: str) -> None:
    """Draw a line per format, and write the width beside each baseline."""
    names = dict.fromkeys(each.label.partition(", ")[0] for each in results.baselines)
    for name, colour in zip(names, cycle(BASELINE_COLOURS), strict=False):
        of_format = [each for each in results.baselines if each.label.partition(", ")[0] == name]
        metrics = (each.metrics for each in of_format)
        _plot(axes, cost, metrics, "x--", color=colour, label=f"uniform {name}", zorder=4)
        for each in of_format:
            point, width = (each.metrics[cost], each.metrics["accuracy"]), each.label.partition(", ")[2]
            axes.annotate(width, point, (5, -10), textcoords="offset points", fontsize=7, color=colour)


def _plot(axes: Axes, cost: str, metrics: Iterable[Mapping[str, float]], marks: str, **style: object) -> None:
    ordered = sorted((each[cost], each["accuracy"]) for each in metrics)
    axes.plot([x for x, _ in ordered], [y for _, y in ordered], marks, **style)  # type: ignore[arg-type]


def _set_cost_scale(axes: Axes, costs: list[float]) -> None:
    if costs and 0 < min(costs) * MIN_RATIO_FOR_LOG < max(costs):
        axes.set_xscale("log")
        axes.xaxis.set_minor_formatter(NullFormatter())
    axes.xaxis.set_major_formatter(EngFormatter(sep=""))
