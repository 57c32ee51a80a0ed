"""What holds for every registered data set."""

from __future__ import annotations

import pytest
import torch

from chop.dataset import DATASETS, MaseDataModule, get_dataset_info


@pytest.fixture(params=list(DATASETS))
def module(request: pytest.FixtureRequest) -> MaseDataModule:
    data_module = MaseDataModule(name=request.param, batch_size=32)
    data_module.prepare_data()
    data_module.setup()
    return data_module


def test_every_dataset_is_as_its_info_says(module: MaseDataModule) -> None:
    info = module.dataset_info
    assert info.name == module.name
    for part in (module.splits.train, module.splits.val, module.splits.test):
        assert part.features.shape == (len(part.labels), *info.feature_shape)
        assert (part.features.dtype, part.labels.dtype) == (torch.float32, torch.int64)
        assert part.features.isfinite().all()
        assert set(part.labels.tolist()) == set(range(info.num_classes))


def test_every_dataset_is_the_same_when_loaded_again(module: MaseDataModule) -> None:
    again = MaseDataModule(name=module.name, batch_size=32)
    again.setup()
    for part in ("train", "val", "test"):
        for first, second in zip(getattr(module.splits, part), getattr(again.splits, part), strict=True):
            assert first.equal(second)


def test_every_dataset_says_where_it_comes_from(module: MaseDataModule) -> None:
    assert module.dataset_info.provenance


@pytest.mark.parametrize("name", DATASETS)
def test_every_dataset_is_known_without_loading_it(name: str) -> None:
    assert get_dataset_info(name).name == name


@pytest.mark.parametrize("name", DATASETS)
def test_every_dataset_leaves_the_random_state_alone(name: str) -> None:
    before = torch.get_rng_state()
    module = MaseDataModule(name=name, batch_size=32)
    module.setup()
    for loader in (module.train_dataloader(), module.val_dataloader()):
        list(loader)
    assert torch.get_rng_state().equal(before)
