"""What a training logged, as curves."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

MOST_POINTS = 2000
_TITLES = {"loss": "Loss", "accuracy": "Accuracy", "rate": "Learning rate"}
_NAMES = {
    "train": "training",
    "val": "validation",
    "test": "test",
    "step": "each batch",
    "learning": "learning rate",
}


@dataclass(frozen=True)
class Series:
    name: str
    values: list[float | None]


@dataclass(frozen=True)
class Curves:
    """Curves of one kind over the steps."""

    title: str
    x_title: str
    x: list[float]
    series: list[Series]


def curves_of(lines: Sequence[Mapping[str, Any]]) -> list[Curves]:
    """One picture for losses, one for accuracies, one for the learning rate; fewer, if the log has fewer."""
    steps = [line for line in lines if _is_number(line.get("step")) and math.isfinite(line["step"])]
    keys = list(dict.fromkeys(key for line in steps for key in line if key not in ("step", "epoch")))
    found = []
    for kind, title in _TITLES.items():
        mine = [key for key in keys if key.rpartition("_")[2] == kind]
        rows = _thinned([line for line in steps if any(_is_number(line.get(key)) for key in mine)])
        if len(rows) > 1:
            series = [Series(_name(key), [_value(row.get(key)) for row in rows]) for key in mine]
            found.append(Curves(title, "step", [row["step"] for row in rows], series))
    return found


def _thinned(rows: list[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """At most so many points, the last one among them; half of them lines of epochs, which have most numbers."""
    if len(rows) <= MOST_POINTS:
        return rows
    fullest = max(len(row) for row in rows)
    of_epochs = [place for place, row in enumerate(rows) if len(row) == fullest]
    return [rows[place] for place in sorted({*_spread(of_epochs), *_spread(range(len(rows)))})]


def _spread(places: Sequence[int]) -> Sequence[int]:
    """Half of `MOST_POINTS` at most, the last one among them."""
    return places[:: -max(1, -(-len(places) // (MOST_POINTS // 2)))]


def _name(key: str) -> str:
    part = key.rpartition("_")[0]
    return _NAMES.get(part, part.replace("_", " "))


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _value(value: Any) -> float | None:
    return value if _is_number(value) else None
