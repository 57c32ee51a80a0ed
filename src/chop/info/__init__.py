"""Tables and pages about models, data sets, formats, passes and ops, for `ch info` and for docs/."""

from chop.info.page import Kind, Listing, Page, describe, find_kind

__all__ = ["Kind", "Listing", "Page", "describe", "find_kind"]
