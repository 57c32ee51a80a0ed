"""The command `ch search`."""

from __future__ import annotations

from pathlib import Path

from chop.config import SearchConfig
from chop.searching.search import search as run_search


def search(config: SearchConfig) -> Path:
    """Search for number formats and return the run folder; for `--apply`, the folder of the new graph."""
    folder = run_search(config)
    return folder.transform if config.apply is not None and not config.finetune else folder.path
