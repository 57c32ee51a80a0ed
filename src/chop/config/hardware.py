"""Options of circuits, which `ch emit`, `ch simulate`, passes and the engine share."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

from chop.config.base import Options, RunConfig, option

Strategy = Literal["unrolled", "folded", "stream_conv"]
StrategyName = Literal["auto", Strategy]
SimulatorName = Literal["auto", "verilator", "icarus", "emulator"]


@dataclass(frozen=True, kw_only=True)
class ResolveOptions(Options):
    """How number formats are completed."""

    strict: bool = option(False, help="fail if a layer has no number format, rather than completing it")


@dataclass(frozen=True, kw_only=True)
class DesignOptions(ResolveOptions):
    """How a graph becomes a circuit."""

    name: str = option("network", help="name of the top module; the other modules start with it")
    strategy: StrategyName | Mapping[str, StrategyName] = option(
        "auto",
        help="unrolled: one result per cycle; folded: multipliers are shared; stream_conv: one pixel per cycle; "
        "auto: large linear layers are folded, and large convolutions streamed; in Python and TOML also a dict "
        "by node, with `default` for the other nodes",
    )
    p_in: int = option(4, least=1, help="inputs that a folded layer multiplies at a time")
    p_out: int = option(4, least=1, help="outputs that a folded layer computes at a time")
    stages: int | None = option(None, least=1, help="largest number of register stages per layer")
    latency_cutoff: int | None = option(None, least=1, help="largest number of adders between two registers")
    clock_mhz: float = option(
        200.0, least=1, help="clock that registers are placed for, without stages and latency_cutoff"
    )
    solver: Literal["alkaid", "csd"] = option(
        "alkaid", help="how constant products are optimised; csd needs no package, and gives larger circuits"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", self.name):
            raise ValueError(f"'name' must be a letter, then letters, digits and underscores, got '{self.name}'")
        if self.stages is not None and self.latency_cutoff is not None:
            raise ValueError("give either 'stages' or 'latency_cutoff', not both")

    def without_effect(self) -> dict[str, str]:
        """Return the options that change nothing beside the others, each with the reason."""
        reason = "with 'strategy' unrolled, which shares no multipliers"
        unused = dict.fromkeys(("p_in", "p_out"), reason) if self.strategy == "unrolled" else {}
        return super().without_effect() | unused

    @property
    def strategies(self) -> Mapping[str, StrategyName]:
        """The strategy of each node, and `default` for the others; auto: it follows from the size of a layer."""
        return self.strategy if isinstance(self.strategy, Mapping) else {"default": self.strategy}


@dataclass(frozen=True, kw_only=True)
class CircuitOptions(DesignOptions):
    """How a graph becomes the files of a circuit."""

    axi_stream: bool = option(False, help="also write a top module with AXI4-Stream ports, and simulate that one")


@dataclass(frozen=True, kw_only=True)
class CheckedCircuitOptions(CircuitOptions):
    """How a graph becomes a circuit that is compared with it."""

    samples: int = option(
        1000, least=1, aliases=("num_vectors",), help="number of samples to compare and to measure accuracy on"
    )


@dataclass(frozen=True, kw_only=True)
class SimulationOptions(CheckedCircuitOptions):
    """How a circuit is simulated."""

    simulator: SimulatorName = option(
        "auto", help="program that simulates the circuit; emulator: run the integer program in numpy only"
    )


@dataclass(frozen=True, kw_only=True)
class EmitConfig(CheckedCircuitOptions, RunConfig):
    """Write the model of a run as a circuit in SystemVerilog."""

    examples: ClassVar[tuple[str, ...]] = (
        "ch emit latest",
        "ch emit latest --strategy folded --p-in 8 --p-out 4",
    )

    synthesis: Literal["none", "xc7", "ecp5"] = option("none", help="FPGA family for which Yosys measures the area")
    route: bool = option(False, help="also place and route for ECP5 with nextpnr, and print the clock frequency")


@dataclass(frozen=True, kw_only=True)
class SimulateConfig(SimulationOptions, RunConfig):
    """Simulate the circuit of a run's model and compare every bit with PyTorch."""

    examples: ClassVar[tuple[str, ...]] = ("ch simulate latest", "ch simulate latest --emulate")

    emulate: bool = option(False, help="same as --simulator emulator")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.emulate:
            object.__setattr__(self, "simulator", "emulator")

    def without_effect(self) -> dict[str, str]:
        """Return the options that change nothing beside the others, each with the reason."""
        return super().without_effect() | ({"simulator": "with 'emulate'"} if self.emulate else {})
