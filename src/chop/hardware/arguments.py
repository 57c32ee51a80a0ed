"""The options of a design as flat fields, which passes and commands share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from chop.hardware.prepare import prepare
from chop.hardware.rtl.design import Design, DesignOptions, make_design
from chop.hardware.rtl.folded import Folding
from chop.hardware.rtl.pipeline import PipelineOptions, Strategy
from chop.ir import MaseGraph


@dataclass(frozen=True)
class DesignArgs:
    """How a graph becomes a circuit."""

    name: str = "network"
    """The name of the top module."""
    strategy: Mapping[str, Strategy] = field(default_factory=dict)
    """`unrolled`, `folded` or `stream_conv` by node, and `default` for the other nodes; by default, large linear
    layers are folded and large convolutions are streamed."""
    p_in: int = 4
    """Inputs that a folded node multiplies at a time."""
    p_out: int = 4
    """Outputs that a folded node computes at a time."""
    stages: int | None = None
    """The largest number of register stages of each unrolled node."""
    latency_cutoff: int | None = None
    """The largest number of adders in a row between two registers."""
    clock_mhz: float = 200.0
    """The clock that registers are placed for, if `stages` and `latency_cutoff` are not given."""
    solver: Literal["alkaid", "csd"] = "alkaid"
    """How constant products are optimised; without the package alkaid, by canonical signed digits."""
    strict: bool = False
    """Whether a node that needs a number format and has none is an error, rather than given one."""

    def design_options(self) -> DesignOptions:
        """Return the options of the design."""
        pipeline = PipelineOptions(self.stages, self.latency_cutoff, self.clock_mhz)
        folding = Folding(self.p_in, self.p_out)
        return DesignOptions(self.name, self.strategy, folding, pipeline, self.solver == "alkaid")

    def design(self, graph: MaseGraph) -> Design:
        """Return the circuit of a graph, which is prepared on a copy."""
        return make_design(prepare(graph, self.strict).program, self.design_options())
