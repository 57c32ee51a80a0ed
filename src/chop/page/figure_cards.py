"""The key figures at the top of the page."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from chop.display.figures import Better, KeyFigure, Kind, figure

Info = Mapping[str, Any]

COSTS = (
    "average_weight_bits",
    "average_activation_bits",
    "weight_bits",
    "macs",
    "bitops",
    "peak_activation_bits",
    "energy_pj",
)


@dataclass(frozen=True)
class FigureCard:
    """The value of a key figure, and the value of the original model if it is known."""

    name: str
    title: str
    help: str
    value: float
    before: float | None
    kind: Kind
    better: Better | None


def figure_cards(cost: Info, cost_before: Info | None, comparison: Info, run: Info) -> list[FigureCard]:
    """Return the cards of all key figures that are known: accuracy, bits, cost and error."""
    total, before = cost["total"], (cost_before or {}).get("total", {})
    costs = [
        _card(figure(name), total[name], before.get(name))
        for name in COSTS
        if isinstance(total.get(name), int | float)
    ]
    return [*_accuracy(run), *costs, *_error(comparison)]


def _card(shown: KeyFigure, value: float, before: float | None = None) -> FigureCard:
    return FigureCard(shown.name, shown.heading, shown.help, value, before, shown.kind, shown.better)


def _accuracy(run: Info) -> list[FigureCard]:
    """Return the accuracy on the test split; a transform run has it after and before its passes."""
    test = run.get("test")
    if not isinstance(test, Mapping):
        return []
    after, before = (test.get(when) for when in ("after", "before"))
    value = after.get("accuracy") if isinstance(after, Mapping) else test.get("accuracy")
    value_before = before.get("accuracy") if isinstance(before, Mapping) else None
    return [_card(figure("accuracy"), value, value_before)] if isinstance(value, int | float) else []


def _error(comparison: Info) -> list[FigureCard]:
    """Return the error of the model's output: that of the last node that was compared."""
    if not comparison.get("by_node"):
        return []
    last = list(comparison["by_node"].values())[-1]
    return [_card(figure("output_sqnr_db"), last["sqnr_db"])]
