"""Bits that weights and activations take."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from chop.config.search import Direction
from chop.cost import input_storage, weight_storage
from chop.ir import NodeMeta
from chop.searching.evaluation.cost_metrics import Amounts, CostRunner, register_cost_runner


@register_cost_runner("memory")
@dataclass(frozen=True)
class Memory(CostRunner):
    """Bits of all weights, and of the inputs of all nodes for one sample."""

    metrics: ClassVar[dict[str, Direction]] = {"weight_bits": "minimize", "activation_bits": "minimize"}

    def amounts(self, metas: Sequence[NodeMeta]) -> Amounts:
        return weight_storage(metas).bits, input_storage(metas).bits

    def summarize(self, totals: Amounts, num_rows: int) -> dict[str, float]:
        return {"weight_bits": totals[0], "activation_bits": totals[1] / num_rows}
