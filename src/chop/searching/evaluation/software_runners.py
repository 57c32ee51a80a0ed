"""`[search.strategy.sw_runner]`: how trials are evaluated, and the short training of each one before it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Literal

from chop.config import Options, SearchConfig, TrainConfig, TrainingOptions, option
from chop.dataset import MaseDataModule, Rows
from chop.display.figures import KEY_FIGURES, KeyFigure
from chop.options import check_options

SEARCHABLE_OPTIONS = (
    "learning_rate",
    "batch_size",
    "weight_decay",
    "max_epochs",
    "training_optimizer",
    "lr_scheduler",
)
"""The options that `[search.search_space.training]` may list choices for."""


@dataclass(frozen=True, kw_only=True)
class BasicEvaluation(Options):
    """Loss and accuracy on the first `num_samples` rows of a split, or on all rows if it has fewer."""

    metrics: ClassVar[tuple[KeyFigure, ...]] = (KEY_FIGURES["accuracy"], KEY_FIGURES["loss"])
    data_loader: Literal["train_dataloader", "val_dataloader", "test_dataloader"] = "val_dataloader"
    num_samples: int = option(10_000, least=1, help="number of rows")

    @property
    def on_validation_rows(self) -> bool:
        return self.data_loader == "val_dataloader"

    def rows(self, data: MaseDataModule) -> Rows:
        """Return the rows to evaluate on."""
        split: Rows = getattr(data.splits, self.data_loader.removesuffix("_dataloader"))
        if len(split.labels) == 0:
            raise ValueError(f"the data set has no rows for '{self.data_loader}'")
        return Rows(split.features[: self.num_samples], split.labels[: self.num_samples])


@dataclass(frozen=True, kw_only=True)
class BasicTrain(TrainingOptions):
    """Options of the training on the first `num_samples` training rows; options that are searched override them."""

    data_loader: Literal["train_dataloader"] = "train_dataloader"
    num_samples: int | None = option(None, least=2, help="rows to train on; None: all")
    max_epochs: int = option(3, least=1, help="number of passes over these rows")
    batch_size: int | None = option(None, least=1, help="samples per batch; None: the batch size of the search")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.max_steps == 0:
            raise ValueError("'max_steps' must be 1 or more, or -1 for no limit, got 0")

    def rows(self, data: MaseDataModule) -> Rows:
        """Return the rows to train on."""
        split = data.splits.train
        return Rows(split.features[: self.num_samples], split.labels[: self.num_samples])

    def train_config(self, config: SearchConfig, searched: Mapping[str, Any]) -> TrainConfig:
        """Return the options of `ch train` for a trial, in which `searched` training options are chosen."""
        names = {option.name for option in fields(TrainConfig)} & {option.name for option in fields(self)}
        own = {name: getattr(self, name) for name in names if getattr(self, name) is not None}
        fixed = {name: getattr(config, name) for name in ("model", "dataset", "batch_size", "seed")}
        return TrainConfig(**{**fixed, **own, **searched})

    def max_epochs_of(self, searched: Mapping[str, tuple[Any, ...]]) -> int:
        """Return the number of epochs of the longest training, given the choices of training options."""
        return int(max(searched.get("max_epochs", (self.max_epochs,))))


def check_training_choices(choices: Mapping[str, tuple[Any, ...]], where: str) -> None:
    """Raise ValueError if `ch train` would not accept one of the values."""
    for name, values in choices.items():
        for value in values:
            read = check_options(TrainConfig, {name: value}, where)
            try:
                TrainConfig(model="", dataset="", **read)
            except ValueError as error:
                raise ValueError(f"{where}: {error}") from error
