"""The few numbers at the top of the page."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

Info = Mapping[str, Any]
Kind = Literal["share", "count", "number", "memory", "energy", "decibel"]


@dataclass(frozen=True)
class Figure:
    """A number and what it was before, if that is known."""

    title: str
    value: float
    before: float | None
    kind: Kind
    better: Literal["more", "less"]


_COSTS: tuple[tuple[str, str, Kind], ...] = (
    ("average_weight_bits", "Average weight bits", "number"),
    ("average_activation_bits", "Average data bits", "number"),
    ("weight_bits", "Weight memory", "memory"),
    ("macs", "MACs", "count"),
    ("bitops", "Bit operations", "count"),
    ("peak_activation_bits", "Peak activations", "memory"),
    ("energy_pj", "Energy", "energy"),
)


def figures_of(cost: Info, cost_before: Info | None, comparison: Info, run: Info) -> list[Figure]:
    """What there is of accuracy, bits, cost and error."""
    total, before = cost["total"], (cost_before or {}).get("total", {})
    costs = [
        Figure(title, total[key], before.get(key), kind, "less")
        for key, title, kind in _COSTS
        if isinstance(total.get(key), int | float)
    ]
    return [*_accuracy(run), *costs, *_error(comparison)]


def _accuracy(run: Info) -> list[Figure]:
    """Of a transformation, after and before; of a training or test, of the test part."""
    test = run.get("test")
    if not isinstance(test, Mapping):
        return []
    now, was = (test.get(when) for when in ("after", "before"))
    value = now.get("accuracy") if isinstance(now, Mapping) else test.get("accuracy")
    before = was.get("accuracy") if isinstance(was, Mapping) else None
    return [Figure("Accuracy", value, before, "share", "more")] if isinstance(value, int | float) else []


def _error(comparison: Info) -> list[Figure]:
    """The error of the output: of the last node that was compared."""
    if not comparison.get("by_node"):
        return []
    last = list(comparison["by_node"].values())[-1]
    return [Figure("SQNR of the output", last["sqnr_db"], None, "decibel", "more")]
