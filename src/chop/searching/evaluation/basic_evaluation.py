"""How well the model does on a part of the data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from chop.config.search import Direction
from chop.dataset import MaseDataModule, Rows

PARTS = {"train_dataloader": "train", "val_dataloader": "val", "test_dataloader": "test"}


@dataclass(frozen=True)
class BasicEvaluation:
    """Loss and accuracy on the first `num_samples` rows of a part; of all, if it has fewer."""

    metrics: ClassVar[dict[str, Direction]] = {"accuracy": "maximize", "loss": "minimize"}
    data_loader: Literal["train_dataloader", "val_dataloader", "test_dataloader"] = "val_dataloader"
    num_samples: int = 10_000

    def __post_init__(self) -> None:
        if self.num_samples < 1:
            raise ValueError(f"'num_samples' must be at least 1, got {self.num_samples}")

    def rows(self, data: MaseDataModule) -> Rows:
        part: Rows = getattr(data.splits, PARTS[self.data_loader])
        if len(part.labels) == 0:
            raise ValueError(f"the data set has no rows for '{self.data_loader}'")
        return Rows(part.features[: self.num_samples], part.labels[: self.num_samples])
