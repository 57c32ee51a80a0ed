"""A fixture that makes tests of small trainings quick; the `conftest.py` of a folder imports it."""

from __future__ import annotations

from collections.abc import Iterator
from io import BytesIO
from pathlib import Path

import pytest
import torch
from matplotlib.figure import Figure


@pytest.fixture(autouse=True)
def one_thread_and_no_drawing(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Use one thread, and do not draw plots, which takes longer than a small training."""

    def write_header(self: Figure, file: Path | BytesIO, **options: object) -> None:
        write = file.write if isinstance(file, BytesIO) else file.write_bytes
        write(b"\x89PNG")

    monkeypatch.setattr(Figure, "savefig", write_header)
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
