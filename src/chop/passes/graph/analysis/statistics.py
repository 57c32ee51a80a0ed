"""Statistics under the import path that earlier documentation gave; they live in `chop.statistics`."""

from chop.statistics import Place, Profile

__all__ = ["Place", "Profile"]
