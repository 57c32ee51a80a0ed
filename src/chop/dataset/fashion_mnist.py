"""Fashion-MNIST: images of clothing in the format of MNIST."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from chop.dataset.base import DatasetInfo, register_dataset
from chop.dataset.idx_images import IdxImages


@register_dataset("fashion_mnist")
@dataclass(frozen=True)
class FashionMNIST(IdxImages):
    """70,000 images of clothing, 28 x 28 pixels (Xiao et al., 2017); `path` is a folder with them."""

    info: ClassVar[DatasetInfo] = DatasetInfo(
        "fashion_mnist",
        28 * 28,
        10,
        feature_shape=(1, 28, 28),
        class_names=(
            "t-shirt/top",
            "trouser",
            "pullover",
            "dress",
            "coat",
            "sandal",
            "shirt",
            "sneaker",
            "bag",
            "ankle boot",
        ),
    )
    mirrors: ClassVar[tuple[str, ...]] = (
        "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion/",
        "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
    )
    checksums: ClassVar[Mapping[str, str]] = {
        "train-images-idx3-ubyte": "8d4fb7e6c68d591d4c3dfef9ec88bf0d",
        "train-labels-idx1-ubyte": "25c81989df183df01b3e8a0aad5dffbe",
        "t10k-images-idx3-ubyte": "bef4ecab320f06d8554ea6380940ec79",
        "t10k-labels-idx1-ubyte": "bb300cfdad3c16e7a12a480ee83cd310",
    }
