"""Batches as keyword arguments of a model."""

from __future__ import annotations

from itertools import islice

import pytest
import torch
from torch import Tensor, nn

from chop.dataset import MaseDataModule
from chop.models import describe_model, get_model, get_model_info
from chop.tools import InputGenerator


@pytest.fixture
def module() -> MaseDataModule:
    data_module = MaseDataModule("jsc", batch_size=8, model_name="jsc-tiny", num_rows=100)
    data_module.setup()
    return data_module


def generator(module: MaseDataModule, which: str = "train") -> InputGenerator:
    return InputGenerator(
        data_module=module, model_info=get_model_info("jsc-tiny"), task="cls", which_dataloader=which
    )


@pytest.mark.parametrize("which", ["train", "val", "test", "pred"])
def test_a_batch_can_be_passed_to_the_model(module: MaseDataModule, which: str) -> None:
    model = get_model("jsc-tiny", task="cls", dataset_info=module.dataset_info)
    dummy_in = next(iter(generator(module, which)))
    assert list(dummy_in) == ["x"]
    assert dummy_in["x"].shape == (8, 16)
    assert model(**dummy_in).shape == (8, 5)


def test_next_never_ends(module: MaseDataModule) -> None:
    batches = [batch["x"] for batch in islice(generator(module, "val"), 5)]  # 8 rows: one batch per epoch
    assert all(batch.equal(module.splits.val.features) for batch in batches)
    assert len(batches) == 5


def test_it_is_its_own_iterator(module: MaseDataModule) -> None:
    inputs = generator(module, "test")
    first, second = next(inputs)["x"], next(iter(inputs))["x"]
    assert torch.cat([first, second]).equal(module.splits.test.features[:16])
    assert inputs.batch_size == 8


def test_a_wrong_loader_names_the_allowed_ones(module: MaseDataModule) -> None:
    with pytest.raises(ValueError, match="unknown which_dataloader 'training'; allowed: train, val, test, pred"):
        generator(module, "training")


def test_an_unknown_task_is_refused(module: MaseDataModule) -> None:
    with pytest.raises(ValueError, match="unknown task 'detection'"):
        InputGenerator(module, get_model_info("jsc-tiny"), task="detection")


def test_data_must_be_set_up() -> None:
    with pytest.raises(RuntimeError, match="call setup"):
        generator(MaseDataModule("jsc", batch_size=8))


def test_a_split_without_rows_is_refused() -> None:
    data_module = MaseDataModule("toy_tiny", batch_size=8, num_rows=2)
    data_module.setup()
    with pytest.raises(ValueError, match="the val split of data set 'toy_tiny' has no rows"):
        generator(data_module, "val")


def test_a_model_with_two_inputs_is_refused(module: MaseDataModule) -> None:
    class Sum(nn.Module):
        def forward(self, a: Tensor, b: Tensor) -> Tensor:
            return a + b

    with pytest.raises(ValueError, match="model 'sum' takes a, b, but the data set gives one tensor"):
        InputGenerator(module, describe_model("sum", Sum))


def test_labelled_yields_every_batch_once(module: MaseDataModule) -> None:
    pairs = list(generator(module, "test").labelled())
    rows = module.splits.test
    assert torch.cat([batch["x"] for batch, _ in pairs]).equal(rows.features)
    assert torch.cat([labels for _, labels in pairs]).equal(rows.labels)


def test_once_yields_every_batch_once(module: MaseDataModule) -> None:
    batches = list(generator(module, "test").once())
    assert torch.cat([batch["x"] for batch in batches]).equal(module.splits.test.features)
