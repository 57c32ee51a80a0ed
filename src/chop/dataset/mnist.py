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
        "train-images-idx3-ubyte": "f68b3c2dcbeaaa9fbdd348bbdeb94873",
        "train-labels-idx1-ubyte": "d53e105ee54ea40749a09fcbcd1e9432",
        "t10k-images-idx3-ubyte": "9fb629c4189551a2d022fa330f9573f3",
        "t10k-labels-idx1-ubyte": "ec29112dd5afa0611ce80d1b7f02629c",
    }
