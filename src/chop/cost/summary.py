"""The cost of a model for the summary of a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from chop.cost.estimate import estimate
from chop.ir import NodeMeta
from chop.ir.graph.meta import annotated_batch_size

COST_CONVENTION = "bops"
"""How bit widths count in the cost that every summary has: `chop.cost.conventions`."""


def summarize_cost(models: Mapping[str, Sequence[NodeMeta]]) -> dict[str, Any] | None:
    """Return the cost of the annotated batch, by the names of `models`; None if a node has no shapes.

    The names are `before` and `after`; `unknown` are the nodes of the last model that are not counted.
    """
    if not all(meta.annotated for metas in models.values() for meta in metas):
        return None
    costs = {name: estimate(metas, COST_CONVENTION) for name, metas in models.items()}
    totals = {name: asdict(cost.total) for name, cost in costs.items()}
    return {
        "samples": annotated_batch_size(next(iter(models.values()))),
        "convention": COST_CONVENTION,
        "unknown": list(list(costs.values())[-1].unknown),
        **{name: {key: value for key, value in each.items() if value is not None} for name, each in totals.items()},
    }
