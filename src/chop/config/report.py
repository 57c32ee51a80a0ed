"""Options of `ch report`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from chop.config.base import RunConfig, option


@dataclass(frozen=True, kw_only=True)
class ReportConfig(RunConfig):
    """Write everything that is known about a run into one HTML page."""

    output: Path | None = option(None, help="file to write; default: report.html in the run folder")
    samples: int = option(256, least=1, help="number of test samples to measure on")
    no_sensitivity: bool = option(False, help="skip the sensitivity of each layer, which takes longest")
    open: bool = option(False, help="open the page in a browser")
