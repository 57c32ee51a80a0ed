"""`ch search`, and the import path of its strategies."""

from chop.actions.search.command import search

__all__ = ["search"]
