"""`[search.strategy.sw_runner.basic_evaluation]`: loss and accuracy on one split of the data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from chop.dataset import MaseDataModule, Rows
from chop.display.figures import KEY_FIGURES, KeyFigure

SPLITS = {"train_dataloader": "train", "val_dataloader": "val", "test_dataloader": "test"}


@dataclass(frozen=True)
class BasicEvaluation:
    """Loss and accuracy on the first `num_samples` rows of a split, or on all rows if it has fewer."""

    metrics: ClassVar[tuple[KeyFigure, ...]] = (KEY_FIGURES["accuracy"], KEY_FIGURES["loss"])
    data_loader: Literal["train_dataloader", "val_dataloader", "test_dataloader"] = "val_dataloader"
    num_samples: int = 10_000

    def __post_init__(self) -> None:
        if self.num_samples < 1:
            raise ValueError(f"'num_samples' must be at least 1, got {self.num_samples}")

    def rows(self, data: MaseDataModule) -> Rows:
        """Return the rows to evaluate on."""
        split: Rows = getattr(data.splits, SPLITS[self.data_loader])
        if len(split.labels) == 0:
            raise ValueError(f"the data set has no rows for '{self.data_loader}'")
        return Rows(split.features[: self.num_samples], split.labels[: self.num_samples])
