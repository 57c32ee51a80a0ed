"""`ch report`."""

from __future__ import annotations

from pathlib import Path

from chop.config import ReportConfig
from chop.reporting import run_report


def report(config: ReportConfig) -> Path:
    """Write the report page of a run and return its path."""
    return run_report.report(config)
