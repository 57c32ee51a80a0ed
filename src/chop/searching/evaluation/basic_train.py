"""A short training of each configuration."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import nn

from chop.config import SearchConfig, TrainConfig
from chop.dataset import MaseDataModule, Rows
from chop.options import check_options
from chop.training.batches import num_batches, shuffled
from chop.training.optimizer import make_optimizer, set_learning_rate

TUNABLE = ("learning_rate", "batch_size", "weight_decay", "max_epochs", "training_optimizer", "lr_scheduler")
"""What `[search.search_space.training]` may offer choices of."""


@dataclass(frozen=True)
class BasicTrain:
    """Epochs over the first `num_samples` training rows; settings that are searched go before these."""

    data_loader: Literal["train_dataloader"] = "train_dataloader"
    num_samples: int | None = None
    max_epochs: int = 3
    max_steps: int = -1
    batch_size: int | None = None
    """None: that of the whole configuration."""
    learning_rate: float = 1e-3
    weight_decay: float = 0.0
    training_optimizer: Literal["adam", "sgd", "adamw"] = field(
        default="adam", metadata={"aliases": ("optimizer",)}
    )
    lr_scheduler: Literal["none", "cosine", "linear", "step"] = "none"

    def __post_init__(self) -> None:
        if self.num_samples is not None and self.num_samples < 2:
            raise ValueError(f"'num_samples' must be at least 2, got {self.num_samples}")
        if self.max_steps == 0:
            raise ValueError("'max_steps' must be 1 or more, or -1 for no limit, got 0")
        TrainConfig(model="", dataset="", **self._settings)  # knows the least value of each

    @property
    def _settings(self) -> dict[str, Any]:
        known = {each.name for each in fields(TrainConfig)}
        given = {each.name: getattr(self, each.name) for each in fields(self) if each.name in known}
        return {name: value for name, value in given.items() if value is not None}

    def rows(self, data: MaseDataModule) -> Rows:
        part = data.splits.train
        return Rows(part.features[: self.num_samples], part.labels[: self.num_samples])

    def config(self, config: SearchConfig, searched: Mapping[str, Any]) -> TrainConfig:
        """How a configuration is trained, as `ch train` would be told."""
        fixed = {"model": config.model, "dataset": config.dataset, "batch_size": config.batch_size}
        return TrainConfig(**{**fixed, "seed": config.seed, **self._settings, **searched})

    def most_epochs(self, searched: Mapping[str, tuple[Any, ...]]) -> int:
        """The epochs of the longest training."""
        return int(max(searched.get("max_epochs", (self.max_epochs,))))


def check_choices(choices: Mapping[str, tuple[Any, ...]], where: str) -> None:
    """Every value must be one that `ch train` takes."""
    for name, values in choices.items():
        for value in values:
            read = check_options(TrainConfig, {name: value}, where)
            try:
                TrainConfig(model="", dataset="", **read)
            except ValueError as error:
                raise ValueError(f"{where}: {error}") from error


def train_epochs(model: nn.Module, rows: Rows, config: TrainConfig) -> Iterator[int]:
    """Train in place; gives the number of each epoch that is done, and goes on when asked for the next."""
    optimizer = make_optimizer(config, model)
    torch.manual_seed(config.seed)
    num_steps = config.max_epochs * num_batches(len(rows.labels), config.batch_size)
    num_steps = num_steps if config.max_steps < 0 else min(num_steps, config.max_steps)
    step = 0
    for epoch in range(config.max_epochs):
        model.train()
        for batch in shuffled(rows, config.batch_size, config.seed, epoch):
            set_learning_rate(optimizer, config, step, num_steps)
            F.cross_entropy(model(batch.features), batch.labels).backward()
            optimizer.step()
            optimizer.zero_grad()
            step += 1
            if step == num_steps:
                break
        yield epoch + 1
        if step == num_steps:
            return
