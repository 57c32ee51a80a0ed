"""Bits of a number, on average."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from chop.config.search import Direction
from chop.cost import input_storage, weight_storage
from chop.ir import NodeMeta
from chop.searching.evaluation.cost_metrics import Amounts, CostRunner, register_cost_runner


@register_cost_runner("average_bitwidth")
@dataclass(frozen=True)
class AverageBitwidth(CostRunner):
    """The mean of the average bits of weights and of inputs, and how many times that goes into `compare_to`."""

    metrics: ClassVar[dict[str, Direction]] = {"average_bitwidth": "minimize", "memory_density": "maximize"}
    compare_to: int = 32

    def __post_init__(self) -> None:
        if self.compare_to < 1:
            raise ValueError(f"'compare_to' must be at least 1, got {self.compare_to}")

    def amounts(self, metas: Sequence[NodeMeta]) -> Amounts:
        weights, inputs = weight_storage(metas), input_storage(metas)
        return weights.elements, weights.bits, inputs.elements, inputs.bits

    def summarize(self, totals: Amounts, num_rows: int) -> dict[str, float]:
        kinds = [(elements, bits) for elements, bits in (totals[:2], totals[2:]) if elements]
        average = sum(bits / elements for elements, bits in kinds) / max(1, len(kinds))
        return {"average_bitwidth": average, "memory_density": self.compare_to / average if average else 0.0}
