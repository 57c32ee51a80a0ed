"""The plot of a finished run as a figure of Matplotlib, drawn again from its files so that it can be changed."""

from __future__ import annotations

from dataclasses import fields

from matplotlib.figure import Figure

from chop.files import CorruptFileError, read_json
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
    points = FrontPoints(
        [each["metrics"] for each in own],
        [each["metrics"] for each in own if each["front"]],
        [(each["baseline"], each["metrics"]) for each in trials if each["baseline"] is not None],
        log["plain"]["accuracy"],
    )
    return front_figure(points, next((name for name in log["metrics"] if is_cost(name)), DEFAULT_COST), title)
