"""The models that a run measured, with their numbers: for the table and the plot of a run."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from chop.config import ActionConfig
from chop.display.numbers import counted
from chop.display.tables import Measured, is_number
from chop.files import CorruptFileError, read_json
from chop.runs.folder import RunFolder

PER_BATCH = ("macs", "bitops")
COSTS = (
    *("parameters", "average_weight_bits", "average_activation_bits"),
    *("quantized_weight_bits", "quantized_activation_bits", *PER_BATCH, "weight_bits"),
)
SPLITS = {"train": "training", "validation": "validation", "test": "test"}
LOADERS = {"train_dataloader": "train", "val_dataloader": "validation", "test_dataloader": "test"}


@dataclass(frozen=True)
class Result:
    """One model of a run: a setting of a sweep, a trial of a search, the model before or after a transform."""

    label: str
    """What the model is: `mxfp e2m3, 6.25 bits`, `trial 12 (chosen)`."""
    series: str
    """Results of one series are a line of a plot: `mxfp`, `front`; empty: what others are compared with."""
    values: Mapping[str, float | Measured]
    """By the name of a key figure, per sample."""
    note: str = ""
    """A word beside its marker in a plot."""
    split: str = "test"
    """The rows that it was measured on."""


def read_results(folder: RunFolder, config: ActionConfig, summary: Mapping[str, Any]) -> list[Result]:
    """Return what a run measured; accuracies have the standard error of a share of independent rows."""
    rows = dict(summary["data"].get("rows") or {}) if summary.get("task") == "classification" else {}
    if "test" in rows and config.max_samples is not None:
        rows["test"] = min(rows["test"], config.max_samples)
    try:
        match summary["action"]:
            case "sweep":
                results = list(_sweep(summary))
            case "search":
                results = list(_search(summary, read_json(folder.search_log)))
            case _:
                results = list(_tested(summary))
    except (KeyError, TypeError, AttributeError) as error:
        raise CorruptFileError(f"{folder} is corrupt: {type(error).__name__}: {error}") from error
    return [_with_errors(result, rows) for result in results]


def _with_errors(result: Result, rows: Mapping[str, int]) -> Result:
    """Add the standard errors of accuracies."""
    values = dict(result.values)
    for name, split in (("accuracy", result.split), ("validation_accuracy", "validation")):
        share, number = values.get(name), rows.get(split, 0)
        if isinstance(share, float) and number > 0:
            values[name] = Measured(share, math.sqrt(share * (1 - share) / number))
    return replace(result, values=values)


def _tested(summary: Mapping[str, Any]) -> Iterator[Result]:
    """The metrics of each split, or those of the model before and after a transform, with the costs."""
    cost, test = summary.get("cost") or {}, summary.get("test") or {}
    for name in ("before", "after"):
        if isinstance(test.get(name), Mapping):
            costs = {"parameters": summary.get("parameters")} | dict(cost.get(name) or {})
            series = "" if name == "before" else "after"
            yield Result(name, series, _numbers(test[name]) | _costs(costs, cost.get("samples", 1)))
    if "before" in test or "after" in test:
        return
    for split, title in SPLITS.items():
        metrics = _numbers(summary.get(split) or {})
        if metrics and split == "test":
            costs = {"parameters": summary.get("parameters")} | dict(cost.get("after") or {})
            metrics |= _costs(costs, cost.get("samples", 1))
        if metrics:
            yield Result(title, title, metrics, split=split)


def _sweep(summary: Mapping[str, Any]) -> Iterator[Result]:
    baseline = summary["baseline"]
    yield Result(baseline.get("format", "unchanged"), "", _numbers(baseline))  # earlier versions did not store it
    for row in summary["rows"]:
        name, _, element = row["format"].partition(" ")
        yield Result(f"{row['format']}, {counted(row['bits'], 'bit')}", name, _numbers(row), element)


def _search(summary: Mapping[str, Any], log: Mapping[str, Any]) -> Iterator[Result]:
    """The original model, the uniform baselines and the front, cheapest first."""
    split = LOADERS[summary["evaluated_on"]]
    chosen = (summary.get("best") or {}).get("trial")
    yield Result("original", "", _numbers(log["plain"]), split=split)
    trials = [trial for trial in log["trials"] if trial["state"] == "complete"]
    for trial in trials:
        if trial["baseline"] is not None:
            name = trial["baseline"]
            yield Result(name, f"uniform {name.partition(',')[0]}", _numbers(trial["metrics"]), split=split)
    cost = next((name for name in log["metrics"] if name not in ("accuracy", "loss")), "bitops")
    front = [trial for trial in trials if trial["baseline"] is None and trial["front"]]
    for trial in sorted(front, key=lambda trial: trial["metrics"].get(cost, math.inf)):
        note = "chosen" if trial["number"] == chosen else ""
        label = f"trial {trial['number']}{note and f' ({note})'}"
        yield Result(label, "front", _numbers(trial["metrics"]), note, split)


def _costs(costs: Mapping[str, Any], samples: float) -> dict[str, float]:
    found = _numbers({name: costs[name] for name in COSTS if name in costs})
    return {name: value / samples if name in PER_BATCH else value for name, value in found.items()}


def _numbers(values: Mapping[str, Any]) -> dict[str, float]:
    return {name: value for name, value in values.items() if name != "bits" and is_number(value)}
