"""Options of `ch emit`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from chop.config.base import RunConfig, option


@dataclass(frozen=True, kw_only=True)
class HardwareOptions(RunConfig):
    """Options of the commands that make a circuit from the model of a run."""

    name: str = option("network", help="name of the top module")
    strategy: Literal["auto", "unrolled", "folded", "stream_conv"] = option(
        "auto",
        help="unrolled: one result per cycle; folded: multipliers are shared; stream_conv: one pixel per cycle; "
        "auto: large linear layers are folded, and large convolutions streamed",
    )
    p_in: int = option(4, least=1, help="inputs that a folded layer multiplies at a time")
    p_out: int = option(4, least=1, help="outputs that a folded layer computes at a time")
    stages: int | None = option(None, least=1, help="largest number of register stages per layer")
    latency_cutoff: int | None = option(None, least=1, help="largest number of adders between two registers")
    clock_mhz: float = option(200.0, least=1, help="clock that registers are placed for")
    solver: Literal["alkaid", "csd"] = option(
        "alkaid", help="how constant products are optimised; csd needs no package, and gives larger circuits"
    )
    axi_stream: bool = option(False, help="also write a top module with AXI4-Stream ports, and simulate that one")
    strict: bool = option(False, help="fail if a layer has no number format, rather than completing it")
    samples: int = option(1000, least=1, help="number of test samples to compare and to measure accuracy on")


@dataclass(frozen=True, kw_only=True)
class EmitConfig(HardwareOptions):
    """Write the model of a run as a circuit in SystemVerilog."""

    examples: ClassVar[tuple[str, ...]] = (
        "ch emit latest",
        "ch emit latest --strategy folded --p-in 8 --p-out 4",
    )

    synthesis: Literal["none", "xc7", "ecp5"] = option("none", help="FPGA family for which Yosys measures the area")
    route: bool = option(False, help="also place and route for ECP5 with nextpnr, and print the clock frequency")
