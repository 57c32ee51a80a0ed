"""The data of a run: a data set, and loaders of its batches."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from inspect import signature

import torch
from torch import Tensor
from torch.utils.data import DataLoader
from torch.utils.data import Dataset as TorchDataset

from chop.dataset.base import DatasetInfo, Prepared, Rows, Splits
from chop.dataset.lookup import dataset_from
from chop.dataset.splits import check_splits, first_rows

Batch = tuple[Tensor, Tensor]


class MaseDataModule:
    """Batches `(xs, ys)` of a data set, from `train_`, `val_`, `test_` and `pred_dataloader()`.

    `name` is a registered data set, a data file (.npz, .csv, .parquet, .h5), or a user's class as `data.py:Name` or
    `module:Name`. `seed` determines the order of training batches. `data_seed` determines generated rows and the
    splits, so that runs with different seeds are tested on the same rows. Further options go to the data set
    (`path=`, `num_rows=1000`, `label=`); `suggested` are options that a data set only gets if it has them, such as
    the normalisation that a model expects. `model_name` has no effect.
    """

    def __init__(
        self,
        name: str | os.PathLike[str],
        batch_size: int,
        model_name: str | None = None,
        num_workers: int = 0,
        tokenizer: object = None,
        max_token_len: int | None = None,
        seed: int = 42,
        data_seed: int = 42,
        suggested: Mapping[str, object] | None = None,
        task: str = "cls",
        max_samples: int | None = None,
        **options: object,
    ) -> None:
        if not isinstance(name, str | os.PathLike):
            raise ValueError(f"MaseDataModule needs the name of a data set or a file, got {type(name).__name__}")
        name = os.fspath(name)
        if batch_size < 1:
            raise ValueError(f"batch_size must be at least 1, got {batch_size}")
        if num_workers < 0:
            raise ValueError(f"num_workers must be at least 0, got {num_workers}")
        self.name, self.model_name = name, model_name
        self.batch_size, self.num_workers = batch_size, num_workers
        self.seed = seed
        self.task, self.max_samples = task, max_samples
        suggested, text_task = dict(suggested or {}), None
        if tokenizer is not None:
            suggested["tokenizer"], text_task = tokenizer, task
        elif max_token_len is not None:
            raise ValueError("max_token_len needs a tokenizer")
        if max_token_len is not None:
            suggested["max_length"] = max_token_len
        own = [option for option in signature(MaseDataModule).parameters if option != "options"]
        self._dataset = dataset_from(name, {"seed": data_seed, **options}, own, suggested, text_task)
        if tokenizer is not None and self._dataset.info.kind != "tokens":
            raise ValueError(f"data set '{self.name}' has no text: a tokenizer cannot be used")
        self._splits: Splits | None = None

    def __repr__(self) -> str:
        return f"MaseDataModule('{self.name}', batch_size={self.batch_size})"

    @property
    def dataset_info(self) -> DatasetInfo:
        """The description of the data set; after `setup()` with provenance and version of its rows."""
        info, splits = self._dataset.info, self._splits
        if splits is None:
            return info
        return replace(info, provenance=splits.provenance, version=splits.version)

    @property
    def splits(self) -> Splits:
        """All rows, as tensors in memory."""
        if self._splits is None:
            raise RuntimeError(
                f"the rows of '{self.name}' are not loaded yet: call setup() of the data module first"
            )
        return self._splits

    def prepare_data(self) -> None:
        """Download the files of the data set that are not on this machine yet."""
        if isinstance(self._dataset, Prepared):
            self._dataset.prepare()

    def setup(self) -> None:
        """Load the rows, on the first call."""
        if self._splits is None:
            splits = self._dataset.load()
            check_splits(splits, self._dataset.info)
            if self.max_samples is not None:
                splits = replace(splits, test=first_rows(splits.test, self.max_samples))
            self._splits = splits

    def train_dataloader(self) -> DataLoader[Batch]:
        """Return batches of the training split, shuffled in each epoch."""
        return self._loader(self.splits.train, shuffle=True)

    def val_dataloader(self) -> DataLoader[Batch]:
        """Return batches of the validation split, in order."""
        return self._loader(self.splits.val)

    def test_dataloader(self) -> DataLoader[Batch]:
        """Return batches of the test split, in order."""
        return self._loader(self.splits.test)

    def pred_dataloader(self) -> DataLoader[Batch]:
        """Return batches to predict: those of the test split, in order."""
        return self._loader(self.splits.test)

    def _loader(self, rows: Rows, shuffle: bool = False) -> DataLoader[Batch]:
        return DataLoader(
            _Batches(rows),
            batch_size=self.batch_size,
            shuffle=shuffle,
            num_workers=self.num_workers,
            collate_fn=tuple,
            generator=torch.Generator().manual_seed(self.seed),  # the global generator is not used
        )


class _Batches(TorchDataset[Batch]):
    """Rows for a loader that takes a batch at a time, which is many times faster than row by row."""

    def __init__(self, rows: Rows) -> None:
        self.rows = rows

    def __len__(self) -> int:
        return len(self.rows.features)

    def __getitem__(self, index: int) -> Batch:
        return self.rows.features[index], self.rows.labels[index]

    def __getitems__(self, indices: Sequence[int]) -> list[Tensor]:
        chosen = torch.tensor(indices)
        return [self.rows.features[chosen], self.rows.labels[chosen]]
