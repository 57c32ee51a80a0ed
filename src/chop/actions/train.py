"""`ch train`."""

from __future__ import annotations

from pathlib import Path

from chop.config import TrainConfig, TrainGrid
from chop.training import train as training
from chop.training.grid import run_grid


def train(config: TrainConfig | TrainGrid) -> Path:
    """Train a model, or one per configuration of a grid, and return the run folder."""
    if isinstance(config, TrainGrid):
        return run_grid(config.configs, config.varied).path
    return training.train(config).path
