"""The Pareto plot: accuracy over cost of all trials."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter, NullFormatter, PercentFormatter

from chop.display.numbers import counted
from chop.display.plots import BLUE, MORE_COLOURS, VERMILION, Plot, label_axes, save_figure, wrap_title
from chop.page.search_log import lowest_shown
from chop.searching.evaluation.objectives import known_metrics

if TYPE_CHECKING:
    from chop.searching.results.results import Results
    from chop.searching.study.study import TrialRecord

Metrics = Mapping[str, float]
BASELINE_COLOURS = (VERMILION, *MORE_COLOURS)
"""One per format; colour-blind readers can tell them apart."""
MIN_RATIO_FOR_LOG = 10
"""The cost axis is logarithmic if the largest cost is more than this many times the smallest."""
MARGIN = 0.08
"""The part of an axis around its points."""


def draw_front(results: Results, best: TrialRecord | None, title: str, path: Path) -> None:
    """Plot the results of a search, with the best trial marked."""
    points = FrontPoints(
        [each.metrics for each in results.complete],
        [each.metrics for each in results.front],
        [(each.label, each.metrics) for each in results.baselines],
        results.original["accuracy"],
        None if best is None else (f"trial {best.number}", best.metrics),
    )
    save_figure(front_figure(points, results.cost.name, title), path)


@dataclass(frozen=True)
class FrontPoints:
    """What the Pareto plot shows: the metrics of trials, and those of uniform baselines with their labels."""

    trials: Sequence[Metrics]
    front: Sequence[Metrics]
    baselines: Sequence[tuple[str, Metrics]]
    original_accuracy: float
    chosen: tuple[str, Metrics] | None = None
    """The label and the metrics of the trial that the search recommends."""


def front_figure(points: FrontPoints, cost: str, title: str) -> Figure:
    """Return accuracy over a cost: all trials, the front, and the uniform baselines with their widths."""
    figure = Plot(figsize=(8, 5), layout="constrained")
    axes = figure.subplots()
    _plot(axes, cost, points.trials, ".", color="0.7", label="trials", zorder=1)
    _plot(axes, cost, points.front, "o", color=BLUE, label="front", zorder=3)
    _draw_baselines(axes, points.baselines, cost)
    axes.axhline(points.original_accuracy, color="0.6", linestyle=":", zorder=0, label="original model")
    axes.yaxis.set_major_formatter(PercentFormatter(1.0))
    if points.chosen is not None:
        label, metrics = points.chosen
        ring = {"markersize": 13, "markerfacecolor": "none", "markeredgewidth": 1.6, "zorder": 5}
        _plot(axes, cost, [metrics], "o", color="black", label=f"chosen: {label}", **ring)
    every = (*points.trials, *(metrics for _, metrics in points.baselines))
    chosen = None if points.chosen is None else points.chosen[1]["accuracy"]
    lowest = lowest_shown([metrics["accuracy"] for metrics in points.front], points.original_accuracy, chosen)
    shown = [metrics for metrics in every if lowest is None or metrics["accuracy"] >= lowest]
    _set_cost_scale(axes, [metrics[cost] for metrics in shown])
    label_axes(axes, known_metrics()[cost].axis_title, "accuracy")
    if lowest is not None and len(shown) < len(every):
        _show_region(axes, cost, shown, lowest, points.original_accuracy)
        left_out = counted(len(every) - len(shown), "point")
        axes.set_title(f"{left_out} below {lowest:.0%} not shown", loc="right", fontsize=7, color="0.4")
    axes.legend(frameon=False, loc="lower right")
    figure.suptitle(wrap_title(title), fontsize=10)
    return figure


def _show_region(axes: Axes, cost: str, shown: Sequence[Metrics], lowest: float, original: float) -> None:
    """Limit both axes to the points shown, with a margin."""
    costs = [metrics[cost] for metrics in shown]
    highest = max(original, *(metrics["accuracy"] for metrics in shown))
    margin = MARGIN * (highest - lowest)
    axes.set_ylim(lowest - margin, highest + margin)
    if axes.get_xscale() == "log":
        ratio = (max(costs) / min(costs)) ** MARGIN
        axes.set_xlim(min(costs) / ratio, max(costs) * ratio)
    else:
        margin = MARGIN * (max(costs) - min(costs))
        axes.set_xlim(min(costs) - margin, max(costs) + margin)


def _draw_baselines(axes: Axes, baselines: Sequence[tuple[str, Metrics]], cost: str) -> None:
    """Draw a line per format, and write the width beside each baseline."""
    names = dict.fromkeys(label.partition(", ")[0] for label, _ in baselines)
    for name, colour in zip(names, cycle(BASELINE_COLOURS), strict=False):
        of_format = [(label, metrics) for label, metrics in baselines if label.partition(", ")[0] == name]
        every = (metrics for _, metrics in of_format)
        _plot(axes, cost, every, "x--", color=colour, label=f"uniform {name}", zorder=4)
        for label, metrics in of_format:
            point, width = (metrics[cost], metrics["accuracy"]), label.partition(", ")[2]
            box = {"facecolor": "white", "edgecolor": "none", "alpha": 0.75, "pad": 0.5}  # over lines
            axes.annotate(
                width, point, (6, -11), textcoords="offset points", fontsize=7, color=colour, bbox=box, zorder=6
            )


def _plot(axes: Axes, cost: str, metrics: Iterable[Metrics], marks: str, **style: object) -> None:
    ordered = sorted((each[cost], each["accuracy"]) for each in metrics)
    axes.plot([x for x, _ in ordered], [y for _, y in ordered], marks, **style)  # type: ignore[arg-type]


def _set_cost_scale(axes: Axes, costs: list[float]) -> None:
    if costs and 0 < min(costs) * MIN_RATIO_FOR_LOG < max(costs):
        axes.set_xscale("log")
        axes.xaxis.set_minor_formatter(NullFormatter())
    axes.xaxis.set_major_formatter(EngFormatter(sep=""))
