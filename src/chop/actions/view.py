"""`ch view`."""

from __future__ import annotations

from chop.config import ViewConfig
from chop.reporting.view import start_server


def view(config: ViewConfig) -> None:
    """Serve the runs of a project to browsers on this machine."""
    start_server.view(config)
