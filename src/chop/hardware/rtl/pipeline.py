"""How many registers a unit gets, and which strategy computes it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Strategy = Literal["unrolled", "folded", "stream_conv"]
NANOSECONDS_PER_LEVEL = 1.6
"""An adder of about 16 bits with its routing in a mid-range FPGA of 2015; sets the levels for a clock target."""


@dataclass(frozen=True)
class PipelineOptions:
    """Where registers go: give one of `stages`, `latency_cutoff` and `clock_mhz`."""

    stages: int | None = None
    """The number of register stages of each unrolled unit."""
    latency_cutoff: int | None = None
    """The largest number of adders in a row between two registers."""
    clock_mhz: float = 200.0
    """The clock that the number of adders in a row is chosen for, if neither of the others is given."""

    def __post_init__(self) -> None:
        for name in ("stages", "latency_cutoff"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"'{name}' must be at least 1, got {value}")
        if self.stages is not None and self.latency_cutoff is not None:
            raise ValueError("give either 'stages' or 'latency_cutoff', not both")
        if not self.clock_mhz > 0:
            raise ValueError(f"'clock_mhz' must be above 0, got {self.clock_mhz}")

    @property
    def cutoff(self) -> int:
        """The largest number of levels between two registers, unless `stages` is given."""
        if self.latency_cutoff is not None:
            return self.latency_cutoff
        return max(1, int(1000 / self.clock_mhz / NANOSECONDS_PER_LEVEL))
