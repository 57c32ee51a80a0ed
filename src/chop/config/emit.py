"""Options of `ch emit`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from chop.config.base import RunConfig, option
from chop.config.hardware import CheckedCircuitOptions


@dataclass(frozen=True, kw_only=True)
class EmitConfig(CheckedCircuitOptions, RunConfig):
    """Write the model of a run as a circuit in SystemVerilog."""

    examples: ClassVar[tuple[str, ...]] = (
        "ch emit latest",
        "ch emit latest --strategy folded --p-in 8 --p-out 4",
    )

    synthesis: Literal["none", "xc7", "ecp5"] = option("none", help="FPGA family for which Yosys measures the area")
    route: bool = option(False, help="also place and route for ECP5 with nextpnr, and print the clock frequency")
