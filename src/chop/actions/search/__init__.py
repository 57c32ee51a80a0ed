"""`ch search`. It is a folder, so that `chop.compat` can add a module to it."""

from chop.searching.search import search

__all__ = ["search"]
