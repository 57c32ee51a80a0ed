"""`ch view`."""

from __future__ import annotations

from chop.config import ViewConfig
from chop.reporting.view import server


def view(config: ViewConfig) -> None:
    """Serve the runs of a project to browsers on this machine."""
    server.view(config)
