"""The data of one run: a data set, and loaders of its batches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from inspect import signature

import torch
from torch import Tensor
from torch.utils.data import DataLoader
from torch.utils.data import Dataset as TorchDataset

from chop.dataset.base import DatasetInfo, Prepared, Rows, Splits
from chop.dataset.lookup import dataset_from
from chop.dataset.splits import check_splits

Batch = tuple[Tensor, Tensor]


class MaseDataModule:
    """Batches `(xs, ys)` of a data set, from `train_`, `val_`, `test_` and `pred_dataloader()`.

    `name` is that of a registered data set, a data file (.npz, .csv, .parquet, .h5), or a class of the user's
    as `data.py:Name` or `module:Name`. `seed` fixes the order of the training batches; `data_seed` fixes which
    rows are generated and which are for testing, so that runs with several seeds are tested on the same rows.
    Further options go to the data set (`path=`, `num_rows=1000`, `label=`). `model_name` is noted only: rows
    are prepared alike for every model.
    """

    def __init__(
        self,
        name: str,
        batch_size: int,
        model_name: str | None = None,
        num_workers: int = 0,
        tokenizer: object = None,
        max_token_len: int | None = None,
        seed: int = 42,
        data_seed: int = 42,
        **options: object,
    ) -> None:
        if batch_size < 1:
            raise ValueError(f"batch_size must be 1 or more, {batch_size} was given")
        if num_workers < 0:
            raise ValueError(f"num_workers must be 0 or more, {num_workers} was given")
        if tokenizer is not None or max_token_len is not None:
            raise ValueError(f"data set '{name}' holds no text: it takes no tokenizer and no max_token_len")
        self.name, self.model_name = name, model_name
        self.batch_size, self.num_workers = batch_size, num_workers
        self.seed = seed
        own = [option for option in signature(MaseDataModule).parameters if option != "options"]
        self._dataset = dataset_from(name, {"seed": data_seed, **options}, known_elsewhere=own)
        self._splits: Splits | None = None

    @property
    def dataset_info(self) -> DatasetInfo:
        """What is known of the data set; after `setup()` with provenance, version and hash of its rows."""
        info, splits = self._dataset.info, self._splits
        if splits is None:
            return info
        return replace(info, provenance=splits.provenance, version=splits.version, hash=splits.hash)

    @property
    def splits(self) -> Splits:
        """All rows, as tensors in memory."""
        if self._splits is None:
            raise RuntimeError(
                f"the data of '{self.name}' are not loaded yet: call setup() of the data module first"
            )
        return self._splits

    def prepare_data(self) -> None:
        """Fetch files from elsewhere, where the data set needs any and they are not on this machine yet."""
        if isinstance(self._dataset, Prepared):
            self._dataset.prepare()

    def setup(self) -> None:
        """Load the rows, on the first call."""
        if self._splits is None:
            splits = self._dataset.load()
            check_splits(splits, self._dataset.info)
            self._splits = splits

    def train_dataloader(self) -> DataLoader[Batch]:
        """The training part, in another order each time through."""
        return self._loader(self.splits.train, shuffle=True)

    def val_dataloader(self) -> DataLoader[Batch]:
        """The validation part, in its order."""
        return self._loader(self.splits.val)

    def test_dataloader(self) -> DataLoader[Batch]:
        """The test part, in its order."""
        return self._loader(self.splits.test)

    def pred_dataloader(self) -> DataLoader[Batch]:
        """What predictions are made for: the test part, in its order."""
        return self._loader(self.splits.test)

    def _loader(self, rows: Rows, shuffle: bool = False) -> DataLoader[Batch]:
        return DataLoader(
            _Batches(rows),
            batch_size=self.batch_size,
            shuffle=shuffle,
            num_workers=self.num_workers,
            collate_fn=_as_pair,
            generator=torch.Generator().manual_seed(self.seed),  # also keeps the global one untouched
        )


class _Batches(TorchDataset[Batch]):
    """Rows that a loader draws a batch at a time, which is many times faster than row by row."""

    def __init__(self, rows: Rows) -> None:
        self.rows = rows

    def __len__(self) -> int:
        return len(self.rows.features)

    def __getitem__(self, index: int) -> Batch:
        return self.rows.features[index], self.rows.labels[index]

    def __getitems__(self, indices: Sequence[int]) -> list[Tensor]:
        chosen = torch.tensor(indices)
        return [self.rows.features[chosen], self.rows.labels[chosen]]


def _as_pair(batch: list[Tensor]) -> Batch:
    xs, ys = batch
    return xs, ys
