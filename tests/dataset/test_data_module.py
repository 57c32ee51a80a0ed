"""The data module."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from chop.dataset import JSC, MaseDataModule


@pytest.fixture(autouse=True)
def _offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CHOP_OFFLINE", "1")
    monkeypatch.setenv("CHOP_CACHE", str(tmp_path))


def toy_module(batch_size: int = 32, num_workers: int = 0, seed: int = 42, data_seed: int = 42) -> MaseDataModule:
    module = MaseDataModule(
        "toy_tiny", batch_size=batch_size, num_workers=num_workers, seed=seed, data_seed=data_seed
    )
    module.setup()
    return module


def test_the_data_module_of_the_course_returns_batches_of_jets() -> None:
    module = MaseDataModule(name="jsc", batch_size=8, model_name="jsc-tiny", num_workers=0)
    module.prepare_data()
    module.setup()
    for loader in (
        module.train_dataloader(),
        module.val_dataloader(),
        module.test_dataloader(),
        module.pred_dataloader(),
    ):
        xs, ys = next(iter(loader))
        assert (xs.shape, ys.shape) == ((8, 16), (8,))
    assert module.dataset_info.num_classes == 5


def test_a_loader_returns_every_row_once() -> None:
    module = toy_module(batch_size=50)
    sizes = [len(ys) for _, ys in module.train_dataloader()]
    assert sizes == [50] * 14 + [20]
    drawn = torch.cat([xs for xs, _ in module.train_dataloader()])
    assert set(map(tuple, drawn.tolist())) == set(map(tuple, module.splits.train.features.tolist()))


def test_the_seed_determines_the_order_which_differs_between_epochs() -> None:
    loader = toy_module(seed=1).train_dataloader()
    first, second = (torch.cat([ys for _, ys in loader]) for _ in range(2))
    again = torch.cat([ys for _, ys in toy_module(seed=1).train_dataloader()])
    other = torch.cat([ys for _, ys in toy_module(seed=2).train_dataloader()])
    assert first.equal(again)
    assert not first.equal(second)
    assert not first.equal(other)


def test_only_the_data_seed_changes_the_rows() -> None:
    module = toy_module()
    assert toy_module(seed=7).splits.test.features.equal(module.splits.test.features)
    assert not toy_module(data_seed=7).splits.test.features.equal(module.splits.test.features)


def test_evaluation_splits_keep_their_order() -> None:
    module = toy_module()
    assert torch.cat([ys for _, ys in module.val_dataloader()]).equal(module.splits.val.labels)
    assert torch.cat([ys for _, ys in module.test_dataloader()]).equal(module.splits.test.labels)


@pytest.mark.slow
def test_workers_return_the_same_batches() -> None:
    alone, helped = (
        torch.cat([xs for xs, _ in toy_module(num_workers=workers).train_dataloader()]) for workers in (0, 1)
    )
    assert alone.equal(helped)


def test_writing_to_a_batch_does_not_change_the_rows() -> None:
    module = toy_module()
    before = module.splits.test.features.clone()
    for xs, _ in module.test_dataloader():
        xs.zero_()
    assert module.splits.test.features.equal(before)


@pytest.mark.parametrize("part", ["train", "val", "test", "pred"])
def test_a_loader_before_setup_is_an_error(part: str) -> None:
    module = MaseDataModule("toy_tiny", batch_size=8)
    with pytest.raises(RuntimeError, match="rows of 'toy_tiny' are not loaded yet: call setup\\(\\)"):
        getattr(module, f"{part}_dataloader")()


def test_info_is_known_before_setup() -> None:
    assert MaseDataModule("jsc", batch_size=8).dataset_info.num_features == 16


def test_version_and_digest_are_known_after_setup() -> None:
    module = MaseDataModule("toy_tiny", batch_size=8)
    assert module.dataset_info.version == ""
    module.setup()
    assert module.dataset_info.version == "synthetic"
    assert module.splits.sha256 == toy_module(seed=7).splits.sha256
    assert module.splits.sha256 != toy_module(data_seed=7).splits.sha256


def test_prepare_data_downloads_files(monkeypatch: pytest.MonkeyPatch) -> None:
    prepared: list[JSC] = []
    monkeypatch.setattr(JSC, "prepare", lambda dataset: prepared.append(dataset))
    MaseDataModule("jsc", batch_size=8).prepare_data()
    MaseDataModule("toy_tiny", batch_size=8).prepare_data()
    assert prepared == [JSC()]


def test_options_go_to_the_dataset() -> None:
    module = MaseDataModule("toy_tiny", batch_size=8, num_rows=100)
    module.setup()
    assert len(module.splits.train.labels) == 72


def test_invalid_arguments_are_rejected() -> None:
    with pytest.raises(ValueError, match="batch_size must be at least 1, got 0"):
        MaseDataModule("jsc", batch_size=0)
    with pytest.raises(ValueError, match="num_workers must be at least 0, got -1"):
        MaseDataModule("jsc", batch_size=8, num_workers=-1)
    with pytest.raises(ValueError, match="max_token_len needs a tokenizer"):
        MaseDataModule("jsc", batch_size=8, max_token_len=128)
    with pytest.raises(ValueError, match="data set 'jsc' has no text"):
        MaseDataModule("jsc", batch_size=8, tokenizer=object())
    with pytest.raises(ValueError, match=r"no option 'num_row'; did you mean 'num_rows'\?"):
        MaseDataModule("jsc", batch_size=8, num_row=100)
    with pytest.raises(ValueError, match=r"no option 'num_worker'; did you mean 'num_workers'\?"):
        MaseDataModule("jsc", batch_size=8, num_worker=2)


def test_a_data_module_says_what_it_holds() -> None:
    assert repr(MaseDataModule(name="toy_tiny", batch_size=8)) == "MaseDataModule('toy_tiny', batch_size=8)"
