"""Options of `ch demo`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from chop.config.base import CommandConfig, PageOptions, option


@dataclass(frozen=True, kw_only=True)
class DemoConfig(PageOptions, CommandConfig):
    """Train a small network, compare number formats, quantise it and write a report, in under a minute."""

    examples: ClassVar[tuple[str, ...]] = ("ch demo", "ch demo --open")

    project_dir: Path = option(Path("mase_output"), group="output", help="folder in which run folders are created")
