"""Rows into a training, a validation and a test part, standardised."""

from __future__ import annotations

import torch
from torch import Tensor

from chop.dataset.base import Rows, Scaling, Splits

TEST_SHARE = 0.2  # of all rows
VAL_SHARE = 0.1  # of the rows that are not for testing


def split_rows(features: Tensor, labels: Tensor, seed: int, provenance: str = "") -> Splits:
    """80 % for training, a tenth of which is put aside for validation, and 20 % for testing."""
    order = torch.randperm(len(features), generator=torch.Generator().manual_seed(seed))
    num_test = round(TEST_SHARE * len(features))
    num_val = round(VAL_SHARE * (len(features) - num_test))
    test, val, train = order.tensor_split([num_test, num_test + num_val])
    return Splits(
        train=Rows(features[train], labels[train]),
        val=Rows(features[val], labels[val]),
        test=Rows(features[test], labels[test]),
        provenance=provenance,
    )


def standardise(splits: Splits) -> Splits:
    """Mean 0 and deviation 1 in each feature of the training part; the other parts are scaled alike."""
    train = splits.train.features.double()
    deviation = train.std(dim=0, correction=0)
    scale = torch.where(deviation > 0, deviation, torch.ones_like(deviation))
    scaling = Scaling(train.mean(dim=0).float(), scale.float())
    return Splits(
        train=Rows(scaling(splits.train.features), splits.train.labels),
        val=Rows(scaling(splits.val.features), splits.val.labels),
        test=Rows(scaling(splits.test.features), splits.test.labels),
        provenance=splits.provenance,
        scaling=scaling,
    )
