"""Readers of data files, one file per format; a corrupt file raises a ValueError."""

from chop.dataset.readers.dispatch import KINDS, Content, read_content

__all__ = ["KINDS", "Content", "read_content"]
