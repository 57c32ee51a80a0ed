"""Options of `ch view`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from chop.config.base import CommandConfig, PageOptions, option


@dataclass(frozen=True, kw_only=True)
class ViewConfig(PageOptions, CommandConfig):
    """Show and compare the runs of a project in a browser."""

    examples: ClassVar[tuple[str, ...]] = ("ch view --open",)

    folder: Path = option(Path("mase_output"), kind="positional", help="folder with the runs")
    port: int = option(8080, least=0, most=65535, help="port to listen on; 0: any free port")
    host: str = option("127.0.0.1", help="address to listen on; 0.0.0.0 gives other machines access")
