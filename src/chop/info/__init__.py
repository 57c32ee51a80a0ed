"""Tables and pages about models, data sets, formats, passes and ops, for `ch info` and for docs/."""

from chop.info.kinds import KINDS, describe
from chop.info.page import Kind, Page, Table

__all__ = ["KINDS", "Kind", "Page", "Table", "describe"]
