"""MNIST: images of handwritten digits."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from chop.dataset.base import DatasetInfo, register_dataset
from chop.dataset.idx_images import IdxImages


@register_dataset("mnist")
@dataclass(frozen=True)
class MNIST(IdxImages):
    """70,000 images of handwritten digits, 28 x 28 pixels (LeCun et al., 1998); `path` is a folder with them."""

    info: ClassVar[DatasetInfo] = DatasetInfo(
        "mnist", 28 * 28, 10, feature_shape=(1, 28, 28), class_names=tuple("0123456789")
    )
    mirrors: ClassVar[tuple[str, ...]] = (
        "https://ossci-datasets.s3.amazonaws.com/mnist/",
        "https://storage.googleapis.com/cvdf-datasets/mnist/",
    )
    checksums: ClassVar[Mapping[str, str]] = {
        "train-images-idx3-ubyte": "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
        "train-labels-idx1-ubyte": "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
        "t10k-images-idx3-ubyte": "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
        "t10k-labels-idx1-ubyte": "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
    }
