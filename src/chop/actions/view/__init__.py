"""`ch view`: the runs of a project in a browser, one beside the other."""

from chop.actions.view.command import view

__all__ = ["view"]
