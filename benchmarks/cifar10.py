"""ResNet-32 with its published weights, and a sample of CIFAR-10."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from chop.dataset import DatasetInfo, Rows
from chop.models import get_model

FOLDER = Path(__file__).resolve().parents[2] / "shared" / "data" / "cifar10"


def resnet32_with_images() -> tuple[nn.Module, Rows, Rows] | None:
    """Return the network in float, 1,000 training images and 2,000 test images; None if the files are missing."""
    if not FOLDER.exists():
        print(f"ResNet-32 is left out: {FOLDER} does not exist")
        return None
    info = DatasetInfo("cifar10", 3072, 10, feature_shape=(3, 32, 32))
    model = get_model("resnet32", task="cls", dataset_info=info)
    state = torch.load(FOLDER / "resnet32-d509ac18.th", weights_only=True, map_location="cpu")["state_dict"]
    model.load_state_dict({key.removeprefix("module."): value for key, value in state.items()})
    images = np.load(FOLDER / "cifar10_sample.npz")
    train, test = (
        Rows(_normalised(images[f"{split}_x"]), torch.from_numpy(images[f"{split}_y"]).long())
        for split in ("train", "test")
    )
    return model.eval(), train, test


def _normalised(images: Any) -> Tensor:
    mean, deviation = (
        torch.tensor(each).reshape(3, 1, 1) for each in ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
    )
    return (torch.from_numpy(images).float() / 255 - mean) / deviation
