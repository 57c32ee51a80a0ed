"""Cost runners for circuits: look-up tables, DSP blocks and latency, estimated node by node."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from chop.display.figures import KEY_FIGURES, KeyFigure
from chop.hardware.node_estimate import NodeEstimate, estimate_node
from chop.ir import NodeMeta
from chop.searching.evaluation.cost_runners import Amounts, CostRunner, register_cost_runner

ATTRIBUTES = ("lut", "dsp", "latency")
"""What all runners take from one estimate."""


@dataclass(frozen=True)
class HardwareRunner(CostRunner):
    """A number of the estimated circuit. It is computed only if its options are given or it is an objective."""

    is_default: ClassVar[bool] = False
    attribute: ClassVar[str]
    strategy: Literal["unrolled", "folded"] = "unrolled"

    @property
    def shared_amounts(self) -> Hashable:
        return HardwareRunner, self.strategy

    def amounts(self, metas: Sequence[NodeMeta]) -> Amounts:
        total = sum((estimate_node(meta, self.strategy) for meta in metas), NodeEstimate())
        return tuple(float(getattr(total, name)) for name in ATTRIBUTES)

    def summarize(self, totals: Amounts, num_rows: int) -> dict[str, float]:
        return {self.attribute: totals[ATTRIBUTES.index(self.attribute)]}


@register_cost_runner("lut")
@dataclass(frozen=True)
class LookUpTables(HardwareRunner):
    """Look-up tables of the circuit."""

    attribute: ClassVar[str] = "lut"
    metrics: ClassVar[tuple[KeyFigure, ...]] = (KEY_FIGURES["lut"],)


@register_cost_runner("dsp")
@dataclass(frozen=True)
class DspBlocks(HardwareRunner):
    """DSP blocks of the circuit."""

    attribute: ClassVar[str] = "dsp"
    metrics: ClassVar[tuple[KeyFigure, ...]] = (KEY_FIGURES["dsp"],)


@register_cost_runner("latency")
@dataclass(frozen=True)
class Latency(HardwareRunner):
    """Clock cycles from an input to its result."""

    attribute: ClassVar[str] = "latency"
    metrics: ClassVar[tuple[KeyFigure, ...]] = (KEY_FIGURES["latency"],)
