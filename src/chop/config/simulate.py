"""Options of `ch simulate`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from chop.config.base import RunConfig, option
from chop.config.hardware import SimulationOptions


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
