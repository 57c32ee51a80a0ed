"""The base class of data sets in the format of MNIST: four files, in a user's folder or downloaded."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import torch

from chop.dataset.base import DatasetInfo, Normalized, Splits
from chop.dataset.download import Remote, cache_folder
from chop.dataset.images import Images, check_images, split_images
from chop.dataset.readers.idx import read_idx
from chop.dataset.source_files import fetch_from_mirrors, find_file, named_folder

NUM_IMAGES = (60_000, 10_000)  # training and test images in the original files


@dataclass(frozen=True)
class IdxImages(Normalized):
    """Greyscale images of 28 x 28 pixels; `path` is a folder with the four original files, .gz or unpacked."""

    path: str | os.PathLike[str] | None = None  # folder with the four files, .gz or unpacked

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
