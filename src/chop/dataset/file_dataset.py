"""A data set from a user's file."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from chop.dataset.base import ChannelScaling, DatasetInfo, Normalized, Splits
from chop.dataset.columns import LABELS, finite, pick_label, to_classes, to_numbers
from chop.dataset.file_arrays import find_arrays
from chop.dataset.images import IMAGE_DIMS, WHITE, given_scaling
from chop.dataset.readers import read_content
from chop.dataset.readers.arrays import Arrays
from chop.dataset.splits import (
    SPLIT_NAMES,
    TEST,
    TRAIN,
    VAL,
    scale_features,
    split_as_given,
    split_rows,
    standardise,
)
from chop.display.launcher import data_option
from chop.display.numbers import counted
from chop.registry import closest

if TYPE_CHECKING:
    from pandas import DataFrame

logger = logging.getLogger(__name__)


class Samples(NamedTuple):
    """The rows of a file."""

    features: Tensor
    labels: Any  # as in the file, one per row
    feature_names: tuple[str, ...] = ()
    parts: npt.NDArray[np.int8] | None = None  # the split of each row, if the file says it
    has_bytes: bool = False


def join_splits(found: Mapping[int, Samples], files: Mapping[int, Path]) -> Samples:
    """Return the rows of several files, one per split, as one."""
    import pandas as pd

    first = found[TRAIN]
    for part, each in found.items():
        where = f"data file '{files[part]}'"
        if each.parts is not None:
            raise ValueError(f"{where} has splits of its own: give test= and val=, or split=, not both")
        if (each.feature_names, each.features.shape[1:]) != (first.feature_names, first.features.shape[1:]):
            raise ValueError(f"{where} has other columns, or samples of another shape, than '{files[TRAIN]}'")
        if each.has_bytes != first.has_bytes:
            raise ValueError(f"{where} and '{files[TRAIN]}': one holds images of bytes, and the other does not")
    return Samples(
        torch.cat([each.features for each in found.values()]),
        pd.concat([pd.Series(each.labels) for each in found.values()], ignore_index=True),
        first.feature_names,
        np.concatenate([np.full(len(each.features), part, np.int8) for part, each in found.items()]),
        first.has_bytes,
    )


def read_parts(names: Iterable[object], where: str) -> npt.NDArray[np.int8]:
    """Return the split of each row from its name."""
    texts = [name.decode("utf-8", "replace") if isinstance(name, bytes) else str(name) for name in names]
    for text in dict.fromkeys(texts):
        if text.lower() not in SPLIT_NAMES:
            raise ValueError(f"{where}: '{text}' is not a split; {closest(text, SPLIT_NAMES)}")
    parts = np.array([SPLIT_NAMES[text.lower()] for text in texts], np.int8)
    for part, name in ((TRAIN, "train"), (TEST, "test")):
        if part not in parts:
            raise ValueError(f"{where}: no row has the split '{name}'")
    return parts


MIN_ROWS = 10  # so that no split is empty
CHANNELS = (1, 3, 4)  # of usual images


@dataclass(frozen=True)
class FileDataset(ChannelScaling, Normalized):
    """A table with a label column (.csv, .parquet, .h5, .arff), or arrays x and y (.npz, .h5).

    All other columns are features, except those in `ignore`. 20 % of the rows are the test split, unless `split` or
    `test` is given, or the arrays are called train_x, train_y, test_x and test_y (and val_x, val_y). Images are
    arrays [rows, channels, height, width]; if they hold bytes, `mean` and `std` are those of pixels divided by 255.
    """

    path: str | os.PathLike[str]
    label: str | None = None  # name of the label column, or of the array of labels
    ignore: str | Sequence[str] = ()  # columns to leave out, as a list or separated by commas
    hdf5_table: str | None = None  # the table of an HDF5 file to read
    split: str | None = None  # column or array with the split of each row: train, val or test
    test: str | None = None  # file with the test rows, or its path from the folder of the data file
    val: str | None = None  # likewise, with the validation rows; by default a tenth of the training rows
    standardise: bool = True  # false: features are not standardised, but bytes of images are divided by 255
    channels: Literal["first", "last"] | None = None  # of images; last: [rows, height, width, channels]

    @property
    def info(self) -> DatasetInfo:
        """The description, for which the file is read."""
        samples = self._samples
        _, class_names = self._classes
        return DatasetInfo(
            name=Path(self.path).stem,
            num_features=samples.features[0].numel(),
            num_classes=len(class_names),
            feature_shape=tuple(samples.features.shape[1:]),
            class_names=class_names,
            feature_names=samples.feature_names,
        )

    def load(self) -> Splits:
        """Return the rows of the file in three splits."""
        samples, (labels, _), where = self._samples, self._classes, f"data file '{self.path}'"
        if self.normalize == "unit" and not samples.has_bytes:
            raise ValueError(f"{where}: normalize=unit is for images of bytes; use normalize=none")
        scaling = given_scaling(self.mean, self.std, samples.features, where, self.normalize)
        text = f"file {Path(self.path).name}, {counted(len(labels), 'row')}"
        if samples.parts is None:
            splits = split_rows(samples.features, labels, self.seed, text, version="file")
        else:
            parts = torch.from_numpy(samples.parts)
            splits = split_as_given(samples.features, labels, parts, self.seed, text, version="file")
        divided = f"bytes / {WHITE}" if samples.has_bytes and self.normalize != "none" else ""
        if scaling is not None:
            splits = scale_features(splits, scaling, "each channel with the given mean and deviation")
        elif self.standardise and self.normalize == "standard":
            splits = standardise(splits)
        else:
            return replace(splits, values=divided or "as in the file")
        return replace(splits, values=f"{divided}, {splits.values}") if divided else splits

    @cached_property
    def _classes(self) -> tuple[Tensor, tuple[str, ...]]:
        return to_classes(self._samples.labels, f"data file '{self.path}'")

    @cached_property
    def _samples(self) -> Samples:
        path = Path(self.path).expanduser()
        files = {TRAIN: path}
        for part, name in ((VAL, self.val), (TEST, self.test)):
            if name is not None:
                file = Path(name).expanduser()
                neighbour = path.parent / file
                files[part] = neighbour if not file.exists() and neighbour.exists() else file
        if VAL in files and TEST not in files:
            raise ValueError(f"data file '{path}': val= needs test=, the file with the test rows")
        found = {part: self._read(file) for part, file in files.items()}
        samples = found[TRAIN] if len(found) == 1 else join_splits(found, files)
        if len(samples.features) < MIN_ROWS:
            raise ValueError(
                f"data file '{path}' has {counted(len(samples.features), 'row')}, but {MIN_ROWS} are required"
            )
        return samples

    def _read(self, path: Path) -> Samples:
        where = f"data file '{path}'"
        content = read_content(path, self.hdf5_table)
        names = self.ignore.split(",") if isinstance(self.ignore, str) else self.ignore
        ignore = [name for name in names if name]
        if isinstance(content, Mapping):
            return self._from_arrays(content, ignore, where)
        return self._from_table(content.rename(columns=str), ignore, where)

    def _from_table(self, frame: DataFrame, ignore: Sequence[str], where: str) -> Samples:
        columns = list(frame.columns)
        _check_known(ignore, columns, "to ignore", where)
        parts = None
        if self.split is not None:
            _check_known([self.split], columns, "to split by", where)
            parts = read_parts(frame[self.split], where)
            ignore = [*ignore, self.split]
        frame = frame.drop(columns=list(ignore))
        label = pick_label(list(frame.columns), self.label, where)
        features = frame.drop(columns=label)
        if features.shape[1] == 0:
            raise ValueError(f"{where} has no columns besides the labels")
        for name in (name for name in LABELS if name in features):
            logger.warning(
                "%s: column '%s' is a feature; if it contains the label, leave it out with %s",
                *(where, name, data_option(f"ignore={name}")),
            )
        return Samples(to_numbers(features, where), frame[label], tuple(features.columns), parts)

    def _from_arrays(self, arrays: Arrays, ignore: Sequence[str], where: str) -> Samples:
        _check_known(ignore, list(arrays), "to ignore", where)
        given = None
        if self.split is not None:
            _check_known([self.split], list(arrays), "to split by", where)
            given = read_parts(arrays[self.split].tolist(), where)
            ignore = [*ignore, self.split]
        features, labels, names, parts = find_arrays(arrays, self.label, ignore, where)
        if not (np.issubdtype(features.dtype, np.number) or features.dtype == bool) or np.iscomplexobj(features):
            raise ValueError(f"{where}: '{names[0]}' must hold numbers, not {features.dtype}")
        if given is not None and (parts is not None or len(given) != len(labels)):
            problem = "the arrays have splits in their names" if parts is not None else f"has {len(given)} values"
            raise ValueError(f"{where}: split='{self.split}': {problem}, for {counted(len(labels), 'row')}")
        features = self._channels_first(features, names[0], where)
        rows = features.reshape(len(features), -1)
        numbers = finite(rows, [f"{names[0]}[{i}]" for i in range(rows.shape[1])], where).reshape(features.shape)
        has_bytes = features.dtype == np.uint8 and features.ndim == IMAGE_DIMS
        if has_bytes and self.normalize != "none":
            numbers /= WHITE
        return Samples(numbers, labels.tolist(), (), parts if given is None else given, has_bytes)

    def _channels_first(self, features: npt.NDArray[Any], name: str, where: str) -> npt.NDArray[Any]:
        """Return images as [rows, channels, height, width]; raise an error if they look like another order."""
        if features.ndim != IMAGE_DIMS:
            if self.channels is not None:
                shape = list(features.shape)
                raise ValueError(f"{where}: channels= is for images, but '{name}' has the shape {shape}")
            return features
        if self.channels == "last":
            return features.transpose(0, 3, 1, 2)
        _, first, _, last = features.shape
        if self.channels is None and last in CHANNELS and first not in CHANNELS:
            raise ValueError(
                f"{where}: '{name}' has the shape {list(features.shape)}, which looks like [rows, height, width, "
                f"channels]; images are [rows, channels, height, width]: use {data_option('channels=last')} (or "
                f"channels=first if they are), or save {name}.transpose(0, 3, 1, 2)"
            )
        return features


def _check_known(names: Sequence[str], known: Sequence[str], purpose: str, where: str) -> None:
    for name in names:
        if name not in known:
            raise ValueError(f"{where} has no '{name}' {purpose}; {closest(name, known)}")
