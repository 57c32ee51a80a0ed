"""`ch transform`."""

from __future__ import annotations

import gc
from pathlib import Path

from chop.config import ReportConfig, TransformConfig
from chop.transforming import transform as transforming


def transform(config: TransformConfig) -> Path:
    """Run passes on a model, write a report if requested, and return the folder of the new model."""
    folder = transforming.transform(config)
    if config.report or config.open:
        from chop.reporting.run_report import report  # imports the page and the hardware, which no transform needs

        gc.collect()  # graphs are in reference cycles: without this, large models are in memory twice
        page = report(ReportConfig(run=folder.path, open=config.open))
        print(f"report: {page}")
    return folder.transform
