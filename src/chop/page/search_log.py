"""The results of a search, read from its log."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from chop.display.figures import figure
from chop.files import CorruptFileError
from chop.options import read_options

MIN_RANGE = 0.1
"""The least range of accuracies that a plot of a search shows."""
SOURCE = "the log of the search is corrupt"


@dataclass(frozen=True)
class LoggedMetric:
    """What the log says about a metric."""

    direction: Literal["maximize", "minimize"]


@dataclass(frozen=True)
class LoggedTrial:
    """One trial in the log."""

    number: int
    state: str
    metrics: Mapping[str, float]
    front: bool = False
    """Whether the trial is Pareto-optimal."""
    baseline: str | None = None
    """The name of a uniform configuration, which the search did not propose itself."""
    toml: str | None = None


@dataclass(frozen=True)
class LoggedBestTrial:
    """The trial that the search recommends."""

    number: int
    rule: str
    """Why it is the best one."""
    command: str
    """The command that makes its model."""


def read_search_log(log: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Return the study's name, its metrics, the metrics of the original model, and the complete trials.

    `shown` has the title and the kind of every metric, including those of trials that are not objectives.
    """
    if log is None:
        return None
    for key, kind in (("study", str), ("metrics", Mapping), ("trials", list)):
        if not isinstance(log.get(key), kind):
            raise CorruptFileError(f"{SOURCE}: it has no '{key}'")
    metrics = {}
    for name, given in log["metrics"].items():
        shown, logged = figure(name), _read(LoggedMetric, given, f"metric '{name}'")
        has_unit_on_ticks = shown.kind in ("memory", "energy")
        axis_title = shown.title if has_unit_on_ticks else shown.axis_title
        metrics[name] = {"direction": logged.direction, "axis_title": axis_title}
    trials = [_read(LoggedTrial, given, f"trial {number}") for number, given in enumerate(log["trials"])]
    complete = [asdict(trial) for trial in trials if trial.state == "complete"]
    stored = log.get("plain")
    plain = stored if isinstance(stored, Mapping) else {}
    best = None if log.get("best") is None else asdict(_read(LoggedBestTrial, log["best"], "the best trial"))
    names = dict.fromkeys([*metrics, *(name for trial in complete for name in trial["metrics"])])
    return {
        "study": log["study"],
        "metrics": metrics,
        "shown": {name: {"title": figure(name).title, "kind": figure(name).kind} for name in names},
        "plain": plain,
        "original": "original model, quantised" if log.get("quantized_start") else "original model",
        "trials": complete,
        "best": best,
        "lowest_shown": _lowest_shown(complete, plain, best),
        "shows_best": bool(log.get("shows_best")),
    }


def lowest_shown(front: Sequence[float], original: float, chosen: float | None) -> float | None:
    """Return the accuracy below which plots leave trials out, because nobody would choose them; None: show all."""
    best = max(front, default=original)
    lowest = best - max(MIN_RANGE, 3 * (best - min(original, best, best if chosen is None else chosen)))
    return lowest if sum(accuracy >= lowest for accuracy in front) > 1 else None


def _lowest_shown(
    trials: Sequence[Mapping[str, Any]], plain: Mapping[str, Any], best: Mapping[str, Any] | None
) -> float | None:
    accuracies = {trial["number"]: trial["metrics"].get("accuracy") for trial in trials if trial["front"]}
    front = [accuracy for accuracy in accuracies.values() if accuracy is not None]
    original, chosen = plain.get("accuracy"), accuracies.get(best["number"]) if best else None
    return None if original is None else lowest_shown(front, original, chosen)


def _read(kind: Any, given: Any, where: str) -> Any:
    if not isinstance(given, Mapping):
        raise CorruptFileError(f"{SOURCE}: {where} is not a table")
    known = {key: given[key] for key in kind.__dataclass_fields__ if key in given}
    return read_options(kind, known, f"{SOURCE}: {where}")
