"""MNIST and Fashion-MNIST: four files of images and labels, in a user's folder or downloaded."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import torch

from chop.cache import cache_folder
from chop.dataset.base import DatasetInfo, Normalized, Published, Splits, register_dataset
from chop.dataset.download import Remote, fetch_from_mirrors, find_file, named_folder
from chop.dataset.images import Images, check_images, split_images
from chop.dataset.readers.image_files import read_idx

NUM_IMAGES = (60_000, 10_000)  # training and test images in the original files


@dataclass(frozen=True)
class IdxImages(Published, Normalized):
    """Greyscale images of 28 x 28 pixels; `path` is a folder with the four original files, .gz or unpacked."""

    info: ClassVar[DatasetInfo]
    mirrors: ClassVar[tuple[str, ...]]  # URLs to which the name of a file is appended
    checksums: ClassVar[Mapping[str, str]]  # name of each file (without .gz) -> SHA-256 (of the .gz)

    def prepare(self) -> None:
        """Download the files that are not on this machine yet."""
        self._find_files()

    def load(self) -> Splits:
        """Return the images in three splits."""
        files = self._find_files()
        train, test = (self._read(files, part) for part in ("train", "t10k"))
        return split_images(train, test, self.seed, NUM_IMAGES, normalize=self.normalize)

    def _find_files(self) -> dict[str, Path]:
        if self.path is not None:
            folder = named_folder(self.path, self.info.name)
            return {name: find_file(folder, name, self.info.name) for name in self.checksums}
        folder = cache_folder(self.info.name)
        return {name: self._cached(folder, name, sha256) for name, sha256 in self.checksums.items()}

    def _cached(self, folder: Path, name: str, sha256: str) -> Path:
        if (folder / name).is_file():  # an unpacked file of the user
            return folder / name
        packed = f"{name}.gz"
        remotes = [Remote(mirror + packed, packed, sha256) for mirror in self.mirrors]
        return fetch_from_mirrors(remotes, folder, self.info.name, "a folder with the four original files,")

    def _read(self, files: Mapping[str, Path], part: str) -> Images:
        source = files[f"{part}-images-idx3-ubyte"]
        pixels = torch.from_numpy(read_idx(source, num_dims=3).copy()).unsqueeze(1)
        labels = torch.from_numpy(read_idx(files[f"{part}-labels-idx1-ubyte"], num_dims=1).astype("int64"))
        images = Images(pixels, labels)
        check_images(images, self.info, source)
        return images


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
            *("t-shirt/top", "trouser", "pullover", "dress", "coat"),
            *("sandal", "shirt", "sneaker", "bag", "ankle boot"),
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
