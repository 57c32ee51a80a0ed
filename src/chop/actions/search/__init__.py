"""`ch search`."""

from chop.actions.search.command import search

__all__ = ["search"]
