"""Residual networks for CIFAR-10, and a published checkpoint."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

from chop.cli import main
from chop.dataset import CIFAR10
from chop.models import get_model
from chop.runs import open_run

DATA = Path(__file__).parents[3] / "shared" / "data" / "cifar10"


@pytest.mark.parametrize(
    ("name", "parameters"),
    [("resnet20", 269_722), ("resnet32", 464_154), ("resnet44", 658_586), ("resnet56", 853_018)],
)
def test_the_number_of_parameters_is_that_of_published_networks(name: str, parameters: int) -> None:
    model = get_model(name, dataset_info=CIFAR10.info)
    assert sum(each.numel() for each in model.parameters()) == parameters


def test_parameters_have_the_names_of_published_checkpoints() -> None:
    keys = list(get_model("resnet20", dataset_info=CIFAR10.info).state_dict())
    assert keys[:2] == ["conv1.weight", "bn1.weight"]
    assert {"layer1.0.conv1.weight", "layer2.0.bn1.running_mean", "layer3.2.conv2.weight"} < set(keys)
    assert keys[-2:] == ["linear.weight", "linear.bias"]
    assert not any("shortcut" in key for key in keys)


def test_the_shortcut_takes_every_second_pixel_and_adds_channels_of_zeros() -> None:
    block = get_model("resnet20", dataset_info=CIFAR10.info).get_submodule("layer2.0").eval()
    nn.init.zeros_(block.get_parameter("bn2.weight"))  # leaves the shortcut
    x = torch.rand(2, 16, 8, 8)
    y = block(x)
    assert y.shape == (2, 32, 4, 4)
    assert y[:, 8:24].equal(x[:, :, ::2, ::2])
    assert not y[:, :8].any()
    assert not y[:, 24:].any()


@pytest.mark.slow
@pytest.mark.skipif(not DATA.is_dir(), reason=f"{DATA} does not exist")
def test_a_published_checkpoint_classifies_as_published(tmp_path: Path) -> None:
    files = DATA / "cifar10_sample.npz", DATA / "resnet32-d509ac18.th"
    main(["test", "resnet32", str(files[0]), "--load", str(files[1]), "--project-dir", str(tmp_path)])
    assert open_run(project_dir=tmp_path).summary["test"]["accuracy"] == 0.927
