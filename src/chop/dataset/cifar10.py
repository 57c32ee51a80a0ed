"""CIFAR-10: small colour photographs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import torch

from chop.cache import cache_folder
from chop.dataset.base import ChannelScaling, DatasetInfo, Normalized, Published, Splits, register_dataset
from chop.dataset.download import Remote, fetch_from_mirrors, find_file, named_folder, verify_recorded
from chop.dataset.images import Images, check_images, given_scaling, split_images
from chop.dataset.readers.image_files import read_archive, read_bytes, split_records

ARCHIVE = "cifar-10-binary.tar.gz"
FOLDER = "cifar-10-batches-bin"  # in the archive
TRAIN = tuple(f"data_batch_{number}.bin" for number in range(1, 6))
TEST = ("test_batch.bin",)
NUM_IMAGES = (50_000, 10_000)


@register_dataset("cifar10")
@dataclass(frozen=True)
class CIFAR10(Published, ChannelScaling, Normalized):
    """60,000 photographs, 32 x 32 pixels, in 10 classes (Krizhevsky, 2009).

    `path` is the archive of the binary version, or a folder with it or with its six files, .gz or not.
    """

    info: ClassVar[DatasetInfo] = DatasetInfo(
        "cifar10",
        3 * 32 * 32,
        10,
        feature_shape=(3, 32, 32),
        class_names=("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"),
    )
    remotes: ClassVar[tuple[Remote, ...]] = (
        Remote(
            f"https://www.cs.toronto.edu/~kriz/{ARCHIVE}",
            ARCHIVE,
            "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd",
        ),
    )

    def prepare(self) -> None:
        """Download the archive, if it is not on this machine yet."""
        self._find_source()

    def load(self) -> Splits:
        """Return the images in three splits."""
        source = self._find_source()
        if source.is_dir():
            contents = {name: read_bytes(find_file(source, name, "cifar10")) for name in TRAIN + TEST}
        else:
            contents = read_archive(source, TRAIN + TEST)
        train, test = (_to_images(source, contents, names) for names in (TRAIN, TEST))
        scaling = given_scaling(self.mean, self.std, train.pixels, "data set 'cifar10'", self.normalize)
        return split_images(train, test, self.seed, NUM_IMAGES, scaling=scaling, normalize=self.normalize)

    def _find_source(self) -> Path:
        """Return the archive, or the folder with the unpacked files."""
        if self.path is None:
            folder = cache_folder("cifar10")
            alternative = "the archive of the binary version, or a folder with its files,"
            return _look_in(folder) or fetch_from_mirrors(self.remotes, folder, "cifar10", alternative)
        path = Path(self.path).expanduser()
        return path if path.is_file() else _look_in(named_folder(path, "cifar10")) or path


def _look_in(folder: Path) -> Path | None:
    if (folder / ARCHIVE).is_file():
        verify_recorded(folder / ARCHIVE)
        return folder / ARCHIVE
    for candidate in (folder, folder / FOLDER):
        if any((candidate / name).is_file() for name in (TRAIN[0], f"{TRAIN[0]}.gz")):
            return candidate
    return None


def _to_images(source: Path, contents: Mapping[str, bytes], names: Sequence[str]) -> Images:
    """Return the images of the files `names`, concatenated."""
    missing = [name for name in names if name not in contents]
    if missing:
        raise ValueError(f"'{source}' has no file '{missing[0]}', which data set 'cifar10' needs")
    records = [split_records(contents[name], f"{source}: {name}") for name in names]
    pixels = torch.from_numpy(np.concatenate([pixels for pixels, _ in records]))
    labels = torch.from_numpy(np.concatenate([labels for _, labels in records]).astype("int64"))
    images = Images(pixels, labels)
    check_images(images, CIFAR10.info, source)
    return images
