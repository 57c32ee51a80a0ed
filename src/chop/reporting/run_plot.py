"""Plots of finished runs as figures of Matplotlib, drawn again from their files so that they can be changed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from itertools import cycle

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import StrMethodFormatter

from chop.display.figures import figure as key_figure
from chop.display.plots import PAPER_STYLES, Plot, draw_line, label_axes
from chop.display.tables import error_of, value_of
from chop.files import CorruptFileError, read_json
from chop.runs.results import Result
from chop.runs.run import Run
from chop.searching.evaluation.objectives import DEFAULT_COST, is_cost
from chop.searching.results.pareto_plot import FrontPoints, front_figure
from chop.sweeping.plot import sweep_figure
from chop.training.loop import EpochMetrics
from chop.training.plots import curves_figure


def figure_of_run(run: Run) -> Figure:
    """Return the curves of a training, accuracy over bits of a sweep, or the Pareto plot of a search."""
    draw = {"train": _curves, "sweep": _sweep, "search": _front}.get(run.action)
    if draw is None:
        raise ValueError(f"'{run.folder}' is a run of ch {run.action}; ch train, sweep and search have a plot")
    try:
        return draw(run, f"{run.config.model}, data: {run.summary['data']['title']}")
    except (KeyError, TypeError) as error:
        raise CorruptFileError(f"{run.folder} is corrupt: {type(error).__name__}: {error}") from error


def _curves(run: Run, title: str) -> Figure:
    names = [field.name for field in fields(EpochMetrics)]
    epochs = [each for each in run.metrics if all(name in each for name in names)]
    history = [EpochMetrics(**{name: each[name] for name in names}) for each in epochs]
    return curves_figure(history, run.summary["best_epoch"], title)


def _sweep(run: Run, title: str) -> Figure:
    return sweep_figure([run.summary["baseline"], *run.summary["rows"]], title)


def _front(run: Run, title: str) -> Figure:
    log = read_json(run.folder.search_log)
    wanted = set(log["metrics"])  # a metric that is not finite is not in the log
    trials = [each for each in log["trials"] if each["state"] == "complete" and wanted <= each["metrics"].keys()]
    own = [each for each in trials if each["baseline"] is None]
    chosen = (run.summary.get("best") or {}).get("trial")
    points = FrontPoints(
        [each["metrics"] for each in own],
        [each["metrics"] for each in own if each["front"]],
        [(each["baseline"], each["metrics"]) for each in trials if each["baseline"] is not None],
        log["plain"]["accuracy"],
        next(((f"trial {chosen}", each["metrics"]) for each in own if each["number"] == chosen), None),
    )
    return front_figure(points, next((name for name in log["metrics"] if is_cost(name)), DEFAULT_COST), title)


PAPER_INCHES = (3.4, 2.5)
"""The width of a column of a paper with two columns."""


def figure_of_runs(runs: Sequence[Run], x: str, y: str, axes: Axes | None = None) -> Figure:
    """Return one key figure over another one for several runs, for a paper: readable in grey and 3.4 inches wide.

    Error bars are standard errors. The model that others are compared with is a dotted line at its height.
    """
    if axes is not None:
        _draw_runs(axes, runs, x, y)
        figure = axes.get_figure(root=True)
        assert figure is not None, "axes belong to a figure"
        return figure
    with rc_context({"font.size": 8, "legend.fontsize": 7}):
        figure = Plot(figsize=PAPER_INCHES, layout="constrained")
        _draw_runs(figure.subplots(), runs, x, y)
    return figure


def _draw_runs(axes: Axes, runs: Sequence[Run], x: str, y: str) -> None:
    lines, originals = _lines(runs, x, y), _originals(runs, y)
    x_scale = key_figure(x).scale([value_of(result.values[x]) for line in lines.values() for result in line])
    y_scale = key_figure(y).scale([value_of(result.values[y]) for line in lines.values() for result in line])
    for (label, results), style in zip(lines.items(), cycle(PAPER_STYLES), strict=False):
        points = [
            (
                value_of(result.values[x]) / x_scale.size,
                value_of(result.values[y]) / y_scale.size,
                error_of(result.values[y]) / y_scale.size,
                result.note,
            )
            for result in results
        ]
        draw_line(axes, label, points, style)
    for label, height in originals.items():
        axes.axhline(height / y_scale.size, color="0.4", linestyle=":", linewidth=1, zorder=0, label=label)
    label_axes(axes, x_scale.title, y_scale.title)
    axes.xaxis.set_major_formatter(StrMethodFormatter("{x:,.10g}"))
    axes.legend(frameon=False)


def _lines(runs: Sequence[Run], x: str, y: str) -> dict[str, list[Result]]:
    """The results that have both figures, by the name of their line: that of the run, of the series, or both."""
    lines: dict[str, list[Result]] = {}
    for run in runs:
        by_series: dict[str, list[Result]] = {}
        for result in run.results:
            if result.series and {x, y} <= result.values.keys():
                by_series.setdefault(result.series, []).append(result)
        if not by_series:
            run.table(x, y)  # raises an error with the names that are known
            raise ValueError(f"run '{run.folder}' has no model of which both {x} and {y} are known")
        for series, results in by_series.items():
            several = f"{run.name}: {series}" if len(by_series) > 1 else run.name
            lines[series if len(runs) == 1 and len(by_series) > 1 else several] = results
    return lines


def _originals(runs: Sequence[Run], y: str) -> dict[str, float]:
    """The height of the models that others are compared with; equal ones are one line."""
    found = [
        (value_of(result.values[y]), run, result.label)
        for run in runs
        for result in run.results
        if not result.series and y in result.values
    ]
    several = len({height for height, *_ in found}) > 1
    heights = {height: f"{run.name}: {label}" if several else label for height, run, label in found}
    return {label: height for height, label in heights.items()}
