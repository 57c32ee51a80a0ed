"""Options of `ch view`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from chop.config.base import CommandConfig, option


@dataclass(frozen=True, kw_only=True)
class ViewConfig(CommandConfig):
    """Show and compare the runs of a project in a browser."""

    folder: Path = option(Path("mase_output"), kind="positional", help="folder that holds the runs")
    port: int = option(8080, least=0, most=65535, help="port to listen on; 0: any free port")
    host: str = option("127.0.0.1", help="address to listen on; any other address is open to the network")
    open: bool = option(False, help="open the page in a browser")
