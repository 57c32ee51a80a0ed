"""What all tests share. `samples` beside this file can be imported by every test."""

from pathlib import Path

import pytest
import torch


@pytest.fixture(autouse=True)
def _same_random_numbers() -> None:
    """Every test starts from the same random state, whichever ran before it."""
    torch.manual_seed(0)


@pytest.fixture(autouse=True)
def _no_network_and_no_cache(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Data sets are generated, and nothing is left in the user's cache folder."""
    monkeypatch.setenv("CHOP_OFFLINE", "1")
    monkeypatch.setenv("CHOP_CACHE", str(Path(tmp_path_factory.getbasetemp()) / "cache"))
