"""Statistics under the import path that earlier documentation gave; they are in `chop.statistics`."""

from __future__ import annotations

from typing import Any

from chop import statistics

__all__ = statistics.__all__


def __getattr__(name: str) -> Any:
    return getattr(statistics, name)
