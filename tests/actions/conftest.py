"""A small training that every test of the actions can start from."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from chop.actions.config import TrainConfig
from chop.actions.training import pictures

NET = '''
from torch import nn


class Dropout(nn.Sequential):
    """Random in training: resuming it shows whether random numbers go on where they were."""

    def __init__(self, info):
        layers = nn.Linear(info.num_features, 16), nn.ReLU(), nn.Dropout(0.3), nn.Linear(16, info.num_classes)
        super().__init__(*layers)

    def forward(self, x):
        return super().forward(x)
'''


@pytest.fixture
def train_config(tmp_path: Path) -> TrainConfig:
    """Two epochs of twelve steps, about 20 ms."""
    return TrainConfig(
        model="toy",
        dataset="toy_tiny",
        batch_size=64,
        max_epochs=2,
        learning_rate=0.01,
        accelerator="cpu",
        project_dir=tmp_path / "out",
    )


@pytest.fixture
def dropout_net(tmp_path: Path) -> str:
    """A model in a user's file."""
    file = tmp_path / "net.py"
    file.write_text(NET)
    return f"{file}:Dropout"


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """One thread, and pictures that are composed but not drawn, which takes longer than a small training."""
    monkeypatch.setattr(pictures, "save_figure", lambda figure, path: path.write_bytes(b"\x89PNG"))
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
