"""The training log as curves."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

MAX_POINTS = 2000
"""Points per curve; longer logs are thinned out."""
TITLES = {"loss": "Loss", "accuracy": "Accuracy", "rate": "Learning rate"}
"""The titles of the plots, by the last word of the logged names that each of them shows."""
SERIES_NAMES = {
    "train": "training",
    "val": "validation",
    "test": "test",
    "step": "each batch",
    "learning": "learning rate",
}

LogLine = Mapping[str, Any]


def training_curves(lines: Sequence[LogLine]) -> list[dict[str, Any]]:
    """Return one plot each of losses, accuracies and the learning rate, as far as the log has them.

    A plot has curves over the training steps, such as the losses on two splits; None is a gap in a curve.
    """
    steps = [line for line in lines if _is_number(line.get("step")) and math.isfinite(line["step"])]
    keys = list(dict.fromkeys(key for line in steps for key in line if key not in ("step", "epoch")))
    plots = []
    for kind, title in TITLES.items():
        shown = [key for key in keys if key.rpartition("_")[2] == kind]
        rows = _thinned([line for line in steps if any(_is_number(line.get(key)) for key in shown)])
        if len(rows) > 1:
            series = [
                {"name": _series_name(key), "values": [_value(row.get(key)) for row in rows]} for key in shown
            ]
            plots.append({"title": title, "x_title": "step", "x": [row["step"] for row in rows], "series": series})
    return plots


def _thinned(rows: list[LogLine]) -> list[LogLine]:
    """Return at most `MAX_POINTS` rows, including the last.

    Half of them are reserved for the ends of epochs, the lines with the most numbers.
    """
    if len(rows) <= MAX_POINTS:
        return rows
    most_numbers = max(len(row) for row in rows)
    epoch_ends = [i for i, row in enumerate(rows) if len(row) == most_numbers]
    return [rows[i] for i in sorted({*_evenly_spaced(epoch_ends), *_evenly_spaced(range(len(rows)))})]


def _evenly_spaced(indices: Sequence[int]) -> Sequence[int]:
    """Return at most half of `MAX_POINTS` indices, including the last."""
    return indices[:: -max(1, -(-len(indices) // (MAX_POINTS // 2)))]


def _series_name(key: str) -> str:
    prefix = key.rpartition("_")[0]
    return SERIES_NAMES.get(prefix, prefix.replace("_", " "))


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _value(value: Any) -> float | None:
    return value if _is_number(value) else None
