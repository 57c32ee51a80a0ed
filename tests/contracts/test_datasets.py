"""What holds for every registered data set."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest
import torch

from chop.dataset import DATASETS, MaseDataModule, get_dataset_info

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def _own_files(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """No network, and a cache folder with few images in place of those that would be downloaded."""
    folder = tmp_path_factory.getbasetemp() / "cache_of_contracts"
    if not folder.exists():
        write_images(folder)
    monkeypatch.setenv("CHOP_CACHE", str(folder))
    monkeypatch.setenv("CHOP_OFFLINE", "1")


def write_images(folder: Path) -> None:
    numbers = np.random.default_rng(0)
    for name in ("mnist", "fashion_mnist"):
        (folder / name).mkdir(parents=True)
        for part, count in (("train", 600), ("t10k", 100)):
            images = numbers.integers(0, 256, (count, 28, 28), dtype=np.uint8)
            labels = (np.arange(count) % 10).astype(np.uint8)
            for kind, array in (("images-idx3", images), ("labels-idx1", labels)):
                head = bytes([0, 0, 8, array.ndim]) + b"".join(size.to_bytes(4, "big") for size in array.shape)
                path = folder / name / f"{part}-{kind}-ubyte.gz"
                path.write_bytes(gzip.compress(head + array.tobytes(), compresslevel=1))
    (folder / "cifar10").mkdir()
    for name in [*(f"data_batch_{number}" for number in range(1, 6)), "test_batch"]:
        records = numbers.integers(0, 256, (100, 3073), dtype=np.uint8)
        records[:, 0] = np.arange(100) % 10
        (folder / "cifar10" / f"{name}.bin").write_bytes(records.tobytes())


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
    assert module.dataset_info == again.dataset_info


def test_every_dataset_has_a_validation_part_of_its_own(module: MaseDataModule) -> None:
    splits = module.splits
    assert len(splits.val.labels) == round((len(splits.train.labels) + len(splits.val.labels)) / 10)
    train, val = (set(map(tuple, rows.features.flatten(1).tolist())) for rows in (splits.train, splits.val))
    assert len(train & val) <= len(val) // 100  # real rows may be equal by chance


def test_every_dataset_says_where_it_comes_from(module: MaseDataModule) -> None:
    info = module.dataset_info
    assert info.provenance
    assert info.version
    assert len(info.hash) == 16


@pytest.mark.parametrize("name", DATASETS)
def test_every_dataset_is_known_without_loading_it(name: str) -> None:
    assert get_dataset_info(name).name == name


@pytest.mark.parametrize("name", DATASETS)
def test_every_dataset_leaves_the_random_state_alone(name: str) -> None:
    before, numpy_before = torch.get_rng_state(), np.random.get_state(legacy=False)["state"]
    module = MaseDataModule(name=name, batch_size=32)
    module.setup()
    for loader in (module.train_dataloader(), module.val_dataloader()):
        list(loader)
    assert torch.get_rng_state().equal(before)
    after = np.random.get_state(legacy=False)["state"]
    assert np.array_equal(after["key"], numpy_before["key"])
    assert after["pos"] == numpy_before["pos"]
