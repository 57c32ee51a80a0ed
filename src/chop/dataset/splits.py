"""Dividing rows into training, validation and test splits, and standardising them."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from chop.dataset.base import DatasetInfo, Rows, Scaling, Splits

TEST_SHARE = 0.2  # of all rows
VAL_SHARE = 0.1  # of the rows that are not in the test split
IGNORED = -100  # the label of a token that is not scored; PyTorch's default
MAX_ROWS = 10**8  # of generated data, which must fit into memory
PUBLISHED_SEED = 42  # of the test split of published results on jets
TRAIN, VAL, TEST = range(3)
SPLIT_NAMES = {"train": TRAIN, "training": TRAIN, "val": VAL, "valid": VAL, "validation": VAL, "test": TEST}
"""What users call the splits in a column of a table, and in the names of arrays."""


def check_num_rows(name: str, num_rows: int, least: int = 1) -> None:
    """Raise an error if the data set `name` has too few rows for its splits, or more than memory can hold."""
    if not least <= num_rows <= MAX_ROWS:
        bound = f"at least {least}" if num_rows < least else f"at most {MAX_ROWS:,}"
        raise ValueError(f"data set '{name}' needs num_rows of {bound}, got {num_rows}")


def split_rows(features: Tensor, labels: Tensor, seed: int, provenance: str = "", version: str = "") -> Splits:
    """Return 20 % of the rows for testing, 8 % for validation and 72 % for training."""
    order = torch.randperm(len(features), generator=torch.Generator().manual_seed(seed))
    num_test = round(TEST_SHARE * len(features))
    num_val = round(VAL_SHARE * (len(features) - num_test))
    test, val, train = order.tensor_split([num_test, num_test + num_val])
    split = f"at random with seed {seed}"
    return _gather(features, labels, (train, val, test), provenance, version, split)


def split_as_given(
    features: Tensor, labels: Tensor, parts: Tensor, seed: int, provenance: str = "", version: str = ""
) -> Splits:
    """Return the rows in the splits of `parts`; if none is for validation, a tenth of the training rows is."""
    train, val, test = ((parts == part).nonzero().flatten() for part in (TRAIN, VAL, TEST))
    split = "as given"
    if len(val) == 0:
        chosen, held_out = choose_validation(len(train), seed)
        train, val, split = train[chosen], train[held_out], f"test rows as given, {_validation(seed)}"
    return _gather(features, labels, (train, val, test), provenance, version, split)


def split_in_order(features: Tensor, labels: Tensor, provenance: str = "", version: str = "") -> Splits:
    """Return the first 80 % of the rows for testing, then a tenth for validation and a tenth for training."""
    num_other = max(1, round(0.1 * len(features)))
    num_test = len(features) - 2 * num_other
    test, val, train = torch.arange(len(features)).tensor_split([num_test, num_test + num_other])
    split = "in order: test, validation, training"
    return _gather(features, labels, (train, val, test), provenance, version, split)


def split_as_published(
    features: Tensor, labels: Tensor, seed: int, provenance: str = "", version: str = ""
) -> Splits:
    """Return the test split of scikit-learn's `train_test_split(test_size=0.2, random_state=42)`, row for row.

    `seed` only selects which tenth of the other rows is for validation. Rows of class -1 are left out.
    """
    order = torch.from_numpy(np.random.RandomState(PUBLISHED_SEED).permutation(len(features)))
    test, rest = order.tensor_split([math.ceil(TEST_SHARE * len(features))])
    train, val = choose_validation(len(rest), seed)
    chosen = tuple(rows[labels[rows] >= 0] for rows in (rest[train], rest[val], test))
    split = f"published test rows (train_test_split with random_state={PUBLISHED_SEED}), {_validation(seed)}"
    return _gather(features, labels, chosen, provenance, version, split)


def _validation(seed: int) -> str:
    return f"a tenth of the others for validation at random with seed {seed}"


def choose_validation(num_rows: int, seed: int) -> tuple[Tensor, Tensor]:
    """Return the indices of the rows for training, and of the tenth for validation."""
    order = torch.randperm(num_rows, generator=torch.Generator().manual_seed(seed))
    val, train = order.tensor_split([round(VAL_SHARE * num_rows)])
    return train, val


def shorten(splits: Splits, num_rows: int) -> Splits:
    """Return the first rows of each split, `num_rows` in total."""
    num_test = round(TEST_SHARE * num_rows)
    num_val = round(VAL_SHARE * (num_rows - num_test))
    return replace(
        splits,
        train=first_rows(splits.train, num_rows - num_test - num_val),
        val=first_rows(splits.val, num_val),
        test=first_rows(splits.test, num_test),
    )


def standardise(splits: Splits) -> Splits:
    """Scale the features to mean 0 and deviation 1 in the training split; the other splits by the same factors.

    Images [channels, height, width] are scaled per channel.
    """
    train = splits.train.features.double()
    dims = (0, 2, 3) if train.dim() == 4 else (0,)
    mean, deviation = train.mean(dim=dims, keepdim=True)[0], train.std(dim=dims, correction=0, keepdim=True)[0]
    scale = torch.where(deviation > 0, deviation, torch.ones_like(deviation))
    unit = "channel" if train.dim() == 4 else "feature"
    text = f"mean 0 and deviation 1 of each {unit} in the training split"
    return scale_features(splits, Scaling(mean.float(), scale.float()), text)


def scale_features(splits: Splits, scaling: Scaling, text: str) -> Splits:
    """Apply `scaling` to the features of all splits; `text` describes it."""
    train, val, test = (
        Rows(scaling(rows.features), rows.labels) for rows in (splits.train, splits.val, splits.test)
    )
    return replace(splits, train=train, val=val, test=test, scaling=scaling, values=text)


def check_splits(splits: Splits, info: DatasetInfo) -> None:
    """Raise an error if the rows do not match `info`."""
    for name, rows in (("training", splits.train), ("validation", splits.val), ("test", splits.test)):
        where = f"the {name} split of data set '{info.name}'"
        if tuple(rows.features.shape) != (len(rows.labels), *info.feature_shape):
            raise ValueError(
                f"{where} has features of shape {list(rows.features.shape)}, "
                f"not {[len(rows.labels), *info.feature_shape]}"
            )
        is_token = info.kind == "tokens" and rows.features.dtype == torch.int64
        if rows.labels.dtype != torch.int64 or not (is_token or rows.features.is_floating_point()):
            raise ValueError(
                f"{where} has features of {rows.features.dtype} and labels of {rows.labels.dtype}; "
                "they must be floating-point numbers and torch.int64"
            )
        labels = rows.labels[rows.labels != IGNORED]
        if len(labels) and not 0 <= labels.min() <= labels.max() < info.num_classes:
            raise ValueError(
                f"{where} has labels from {labels.min()} to {labels.max()}; "
                f"there are {info.num_classes} classes, from 0 to {info.num_classes - 1}"
            )


def _gather(
    features: Tensor, labels: Tensor, chosen: tuple[Tensor, ...], provenance: str, version: str, split: str
) -> Splits:
    train, val, test = (Rows(features[rows], labels[rows]) for rows in chosen)
    return Splits(train, val, test, provenance=provenance, version=version, split=split)


def first_rows(rows: Rows, count: int) -> Rows:
    """Return the first `count` rows, or all of them if there are fewer."""
    return Rows(rows.features[:count], rows.labels[:count])
