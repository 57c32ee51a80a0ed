"""`ch search`: the configurations of a space that nothing else beats."""

from chop.actions.search.search import search

__all__ = ["search"]
