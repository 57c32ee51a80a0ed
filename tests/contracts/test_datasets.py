"""What holds for every registered data set."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import torch

from chop.dataset import DATASETS, MaseDataModule, get_dataset_info
from dataset.data_samples import write_downloads

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True, scope="module")
def _own_files(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Disable downloads, and use a cache folder with small files instead."""
    folder = tmp_path_factory.mktemp("cache_of_contracts")
    write_downloads(folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CHOP_CACHE", str(folder))
        patch.setenv("CHOP_OFFLINE", "1")
        yield


@pytest.fixture(scope="module", params=list(DATASETS))
def module(request: pytest.FixtureRequest) -> MaseDataModule:
    data_module = MaseDataModule(name=request.param, batch_size=32)
    data_module.prepare_data()
    data_module.setup()
    return data_module


def test_every_dataset_matches_its_info(module: MaseDataModule) -> None:
    info = module.dataset_info
    assert info.name == module.name == get_dataset_info(module.name).name
    assert info.provenance
    assert info.version
    for rows in (module.splits.train, module.splits.val, module.splits.test):
        assert rows.features.shape == (len(rows.labels), *info.feature_shape)
        assert (rows.features.dtype, rows.labels.dtype) == (torch.float32, torch.int64)
        assert rows.features.isfinite().all()
        assert set(rows.labels.tolist()) == set(range(info.num_classes))


def test_every_dataset_is_the_same_when_loaded_again(module: MaseDataModule) -> None:
    again = MaseDataModule(name=module.name, batch_size=32)
    again.setup()
    for split in ("train", "val", "test"):
        for first, second in zip(getattr(module.splits, split), getattr(again.splits, split), strict=True):
            assert first.equal(second)
    assert module.dataset_info == again.dataset_info


def test_every_dataset_has_a_separate_validation_split(module: MaseDataModule) -> None:
    splits = module.splits
    assert len(splits.val.labels) == round((len(splits.train.labels) + len(splits.val.labels)) / 10)
    train, val = (set(map(tuple, rows.features.flatten(1).tolist())) for rows in (splits.train, splits.val))
    assert len(train & val) <= len(val) // 100  # real rows may be equal by chance


@pytest.mark.parametrize("name", DATASETS)
def test_no_dataset_uses_the_global_random_state(name: str) -> None:
    before, numpy_before = torch.get_rng_state(), np.random.get_state(legacy=False)["state"]
    module = MaseDataModule(name=name, batch_size=32)
    module.setup()
    for loader in (module.train_dataloader(), module.val_dataloader()):
        list(loader)
    assert torch.get_rng_state().equal(before)
    after = np.random.get_state(legacy=False)["state"]
    assert np.array_equal(after["key"], numpy_before["key"])
    assert after["pos"] == numpy_before["pos"]
