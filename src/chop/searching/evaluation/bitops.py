"""Bit operations of a sample."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from chop.config.search import Direction
from chop.cost import bitops
from chop.cost.conventions import bitops_formula
from chop.ir import NodeMeta
from chop.searching.evaluation.cost_metrics import Amounts, CostRunner, register_cost_runner


@register_cost_runner("bitops")
@dataclass(frozen=True)
class Bitops(CostRunner):
    """Bit operations of one sample; nodes whose operations are not known count none."""

    metrics: ClassVar[dict[str, Direction]] = {"bitops": "minimize"}
    convention: str = "bops"

    def __post_init__(self) -> None:
        bitops_formula(self.convention)

    def amounts(self, metas: Sequence[NodeMeta]) -> Amounts:
        return (sum(bitops(meta, self.convention) or 0 for meta in metas),)

    def summarize(self, totals: Amounts, num_rows: int) -> dict[str, float]:
        return {"bitops": totals[0] / num_rows}
