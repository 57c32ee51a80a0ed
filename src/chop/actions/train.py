"""`ch train`."""

from __future__ import annotations

from pathlib import Path

from chop.config import TrainConfig
from chop.training import train as training


def train(config: TrainConfig) -> Path:
    """Train a model and return the run folder."""
    return training.train(config).path
