"""The description of a data set, and registering one."""

from __future__ import annotations

import pytest
import torch

from chop.dataset import (
    DATASETS,
    DatasetInfo,
    MaseDataModule,
    Rows,
    Splits,
    get_dataset_info,
    register_dataset,
)
from chop.registry import UnknownNameError


def test_the_default_shape_is_a_row() -> None:
    assert DatasetInfo("rows", num_features=16, num_classes=5).feature_shape == (16,)


def test_a_shape_that_does_not_match_the_features_is_rejected() -> None:
    with pytest.raises(ValueError, match="samples of shape \\(1, 8, 8\\) have 64 numbers, not num_features=63"):
        DatasetInfo("digits", num_features=63, num_classes=10, feature_shape=(1, 8, 8))


def test_too_few_names_are_rejected() -> None:
    with pytest.raises(ValueError, match="data set 'rows' has 2 names for 3 classes"):
        DatasetInfo("rows", num_features=4, num_classes=3, class_names=("a", "b"))


def test_the_title_includes_the_provenance() -> None:
    assert DatasetInfo("rows", 4, 3).title == "rows"
    assert DatasetInfo("rows", 4, 3, provenance="made up").title == "rows (made up)"


def test_the_jets_have_16_features_and_5_classes() -> None:
    info = get_dataset_info("jsc")
    assert (info.num_features, info.num_classes, info.feature_shape) == (16, 5, (16,))
    assert info.class_names == ("g", "q", "t", "w", "z")


def test_an_unknown_dataset_suggests_the_nearest() -> None:
    for look_up in (get_dataset_info, lambda name: MaseDataModule(name, 8)):
        with pytest.raises(UnknownNameError) as caught:
            look_up("jcs")
        assert str(caught.value) == "unknown data set 'jcs'; did you mean 'jsc'?"


def test_a_users_dataset_needs_only_info_and_load(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(DATASETS, "_entries", dict(DATASETS._entries))

    @register_dataset("mine")
    class Mine:
        info = DatasetInfo("mine", num_features=2, num_classes=2)

        def __init__(self, seed: int = 0) -> None:
            self.seed = seed

        def load(self) -> Splits:
            rows = Rows(torch.arange(20.0).reshape(10, 2), torch.arange(10) % 2)
            return Splits(train=rows, val=rows, test=rows)

    module = MaseDataModule("mine", batch_size=4)
    module.setup()
    xs, ys = next(iter(module.test_dataloader()))
    assert xs.tolist() == [[0, 1], [2, 3], [4, 5], [6, 7]]
    assert ys.tolist() == [0, 1, 0, 1]
