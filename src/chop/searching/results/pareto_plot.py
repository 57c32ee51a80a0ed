"""The front of a search as a picture."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import cycle
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter, NullFormatter, PercentFormatter

from chop.searching.results.results import Results
from chop.training import plots
from chop.training.plots import TRAIN, VALIDATION, label_axes, wrapped

COLOURS = (VALIDATION, "#009e73", "#cc79a7", "#e69f00")
"""Of uniform choices, one for each format; apart for colour-blind readers too."""
WIDE = 10
"""A cost that spans so many times its least value is drawn by its logarithm."""
TITLES = {
    "average_bitwidth": "average bits of a number",
    "memory_density": "times less memory",
    "bitops": "bit operations of a sample",
    "weight_bits": "bits of all weights",
    "activation_bits": "bits of all inputs of a sample",
}


def draw_front(results: Results, title: str, path: Path) -> None:
    """Accuracy over the first cost: all trials, those on the front, and the uniform choices by their widths."""
    figure = Figure(figsize=(8, 5), layout="constrained")
    axes = figure.subplots()
    cost = results.cost.name
    _plot(axes, cost, (each.metrics for each in results.complete), ".", color="0.7", label="trials", zorder=1)
    _plot(axes, cost, (each.metrics for each in results.front), "o", color=TRAIN, label="front", zorder=3)
    _draw_uniform(axes, results, cost)
    axes.axhline(results.plain["accuracy"], color="0.6", linestyle=":", zorder=0, label="as it was")
    axes.yaxis.set_major_formatter(PercentFormatter(1.0))
    measured = [each.metrics for each in results.complete] + [each.metrics for each in results.baselines]
    _scale(axes, [metrics[cost] for metrics in measured])
    label_axes(axes, TITLES.get(cost, cost), "accuracy")
    axes.legend(frameon=False, loc="lower right")
    figure.suptitle(wrapped(title), fontsize=10)
    plots.save_figure(figure, path)


def _draw_uniform(axes: Axes, results: Results, cost: str) -> None:
    """A line for each format, with the width at each point."""
    names = dict.fromkeys(each.label.partition(", ")[0] for each in results.baselines)
    for name, colour in zip(names, cycle(COLOURS), strict=False):
        some = [each for each in results.baselines if each.label.partition(", ")[0] == name]
        metrics = (each.metrics for each in some)
        _plot(axes, cost, metrics, "x--", color=colour, label=f"uniform {name}", zorder=4)
        for each in some:
            place, text = (each.metrics[cost], each.metrics["accuracy"]), each.label.partition(", ")[2]
            axes.annotate(text, place, (5, -10), textcoords="offset points", fontsize=7, color=colour)


def _plot(axes: Axes, cost: str, metrics: Iterable[Mapping[str, float]], marks: str, **how: object) -> None:
    ordered = sorted((each[cost], each["accuracy"]) for each in metrics)
    axes.plot([x for x, _ in ordered], [y for _, y in ordered], marks, **how)  # type: ignore[arg-type]


def _scale(axes: Axes, costs: list[float]) -> None:
    if costs and 0 < min(costs) * WIDE < max(costs):
        axes.set_xscale("log")
        axes.xaxis.set_minor_formatter(NullFormatter())
    axes.xaxis.set_major_formatter(EngFormatter(sep=""))
