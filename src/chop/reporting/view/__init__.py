"""`ch view`: the runs of a project in a browser, one beside the other."""

from chop.reporting.view.serve import view

__all__ = ["view"]
