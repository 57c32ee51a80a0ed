"""`ch sweep`."""

from __future__ import annotations

from pathlib import Path

from chop.config import SweepConfig
from chop.sweeping import sweep as sweeping


def sweep(config: SweepConfig) -> Path:
    """Compare number formats and widths, and return the run folder."""
    return sweeping.sweep(config).path
