"""Batches as keyword arguments of a model."""

from __future__ import annotations

from collections.abc import Iterator

from torch import Tensor

from chop.dataset import MaseDataModule
from chop.models import ModelInfo
from chop.task_names import check_task

Batch = tuple[Tensor, Tensor]


class InputGenerator:
    """An endless iterator over batches `{argument: tensor}`, for `model(**batch)`."""

    def __init__(
        self,
        data_module: MaseDataModule,
        model_info: ModelInfo,
        task: str = "cls",
        which_dataloader: str = "train",
    ) -> None:
        check_task(task)
        model_info.arguments(data_module.splits.train.features[:1])  # raises an error if they do not fit
        self.batch_size = data_module.batch_size
        self._arguments = model_info.arguments
        loaders = {
            "train": data_module.train_dataloader,
            "val": data_module.val_dataloader,
            "test": data_module.test_dataloader,
            "pred": data_module.pred_dataloader,
        }
        if which_dataloader not in loaders:
            raise ValueError(f"unknown which_dataloader '{which_dataloader}'; allowed: {', '.join(loaders)}")
        self._loader = loaders[which_dataloader]()
        if len(self._loader) == 0:
            raise ValueError(f"the {which_dataloader} split of data set '{data_module.name}' has no rows")
        self._batches: Iterator[Batch] = iter(())

    def __iter__(self) -> InputGenerator:
        return self

    def __next__(self) -> dict[str, Tensor]:
        batch = next(self._batches, None)
        if batch is None:
            self._batches = iter(self._loader)
            batch = next(self._batches)
        return self._arguments(batch[0])

    def once(self) -> Iterator[dict[str, Tensor]]:
        """Yield all batches once."""
        for batch, _ in self.labelled():
            yield batch

    def labelled(self) -> Iterator[tuple[dict[str, Tensor], Tensor]]:
        """Yield all batches once, each with the classes of its rows."""
        for features, labels in self._loader:
            yield self._arguments(features), labels
