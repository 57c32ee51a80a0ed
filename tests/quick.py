"""A fixture that makes tests of small trainings quick; a conftest imports it for its folder."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from chop.training import plots


@pytest.fixture(autouse=True)
def one_thread_and_no_drawing(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """One thread, and plots that are composed but not drawn, which takes longer than a small training."""
    monkeypatch.setattr(plots, "save_figure", lambda figure, path: path.write_bytes(b"\x89PNG"))
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
