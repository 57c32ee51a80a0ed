"""What has a name here, as tables: for `ch info`, and for the pages in docs/."""

from chop.info.kinds import KINDS, describe
from chop.info.page import Kind, Page, Table

__all__ = ["KINDS", "Kind", "Page", "Table", "describe"]
