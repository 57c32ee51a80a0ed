"""Run the search of a configuration."""

from __future__ import annotations

from pathlib import Path

from chop.config import SearchConfig
from chop.searching import search as searching


def search(config: SearchConfig) -> Path:
    """Search for number formats and return the run folder; for `--apply`, the folder of the new model."""
    folder = searching.search(config)
    return folder.transform if config.apply is not None and not config.finetune else folder.path
