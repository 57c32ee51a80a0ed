"""Files of rows and of images, as they are found: one file a format; a damaged one is a ValueError."""

from chop.dataset.readers.dispatch import KINDS, Content, read_content

__all__ = ["KINDS", "Content", "read_content"]
