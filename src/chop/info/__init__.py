"""Tables and pages about models, data sets, formats, passes and ops, for `ch info` and for docs/."""

from chop.info.kinds import describe, find_kind
from chop.info.page import Kind, Page, Table

__all__ = ["Kind", "Page", "Table", "describe", "find_kind"]
