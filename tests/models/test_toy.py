"""The small networks for experiments."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from chop.dataset import DatasetInfo, get_dataset_info
from chop.models import get_model


def num_parameters(model: nn.Module) -> int:
    return sum(p.numel() for p in model.parameters())


def test_toy_has_386_parameters_for_its_data_set() -> None:
    # Linear(4, 16) 80, Linear(16, 16) 272, Linear(16, 2) 34
    assert num_parameters(get_model("toy", dataset_info=get_dataset_info("toy_tiny"))) == 386


@pytest.mark.parametrize("shape", [(1, 8, 8), (3, 32, 32), (3, 7, 5), (1, 2, 2)])
def test_toy_convnet_takes_images_of_any_size(shape: tuple[int, int, int]) -> None:
    channels, height, width = shape
    info = DatasetInfo("images", channels * height * width, num_classes=10, feature_shape=shape)
    model = get_model("toy-convnet", dataset_info=info)
    # Conv2d(c, 8, 3) 72c + 8, batch norm 16, Conv2d(8, 16, 3) 1168, batch norm 32, Linear(16, 10) 170
    assert num_parameters(model) == 72 * channels + 8 + 16 + 1168 + 32 + 170
    assert model(torch.randn(4, *shape)).shape == (4, 10)
