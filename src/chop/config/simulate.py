"""Options of `ch simulate`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from chop.config.base import option
from chop.config.emit import HardwareOptions


@dataclass(frozen=True, kw_only=True)
class SimulateConfig(HardwareOptions):
    """Simulate the circuit of a run's model and compare every bit with PyTorch."""

    examples: ClassVar[tuple[str, ...]] = ("ch simulate latest", "ch simulate latest --emulate")

    simulator: Literal["auto", "verilator", "icarus"] = option("auto", help="program that simulates the circuit")
    emulate: bool = option(False, help="run the integer program in numpy only, without a simulator")
