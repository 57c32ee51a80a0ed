"""Options of `ch report`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from chop.config.base import PageOptions, RunConfig, option


@dataclass(frozen=True, kw_only=True)
class ReportConfig(PageOptions, RunConfig):
    """Write a report on a run, or on a grid of runs, as a single HTML page."""

    examples: ClassVar[tuple[str, ...]] = (
        "ch report",
        "ch report jsc-toy_classification_jsc_2026-01-31 --open",
    )

    output: Path | None = option(None, help="file or folder to write to; default: report.html in the run folder")
    samples: int = option(256, least=1, help="number of test samples to measure on")
    no_sensitivity: bool = option(False, help="skip the sensitivity analysis, the slowest part")
