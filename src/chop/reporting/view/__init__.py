"""`ch view`: a server that shows and compares the runs of a project in a browser."""

from chop.reporting.view.server import view

__all__ = ["view"]
