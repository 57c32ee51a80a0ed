"""`ch test`."""

from __future__ import annotations

from pathlib import Path

from chop.config import TestConfig
from chop.training.testing import run_test


def test(config: TestConfig) -> Path:
    """Evaluate a model on the test split and return the run folder."""
    return run_test(config).path


test.__test__ = False  # type: ignore[attr-defined]  # not a test case, although pytest would take its name for one
