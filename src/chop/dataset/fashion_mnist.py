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
    )
    checksums: ClassVar[Mapping[str, str]] = {
        "train-images-idx3-ubyte": "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84",
        "train-labels-idx1-ubyte": "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845",
        "t10k-images-idx3-ubyte": "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073",
        "t10k-labels-idx1-ubyte": "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5",
    }
