"""A data set from a user's file."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
from torch import Tensor

from chop.dataset.base import DatasetInfo, Splits
from chop.dataset.columns import LABELS, finite, pick_label, to_classes, to_numbers
from chop.dataset.images import IMAGE_DIMS, WHITE, given_scaling
from chop.dataset.readers import read_content
from chop.dataset.readers.npz import Arrays
from chop.dataset.splits import scale_features, split_before_test, split_rows, standardise
from chop.display.numbers import counted
from chop.registry import closest

if TYPE_CHECKING:
    from pandas import DataFrame

logger = logging.getLogger(__name__)

ARRAY_PAIRS = {"y": "x", "labels": "features"}  # names of the labels -> names of the features
SPLIT_NAMES = ("{split}_{array}", "{array}_{split}")  # of arrays in a file with a test split of its own
MIN_ROWS = 10  # so that no split is empty


class _Samples(NamedTuple):
    features: Tensor
    labels: Tensor
    class_names: tuple[str, ...]
    feature_names: tuple[str, ...]
    num_test: int | None = None  # the last rows, if the file says which are the test split


class _Arrays(NamedTuple):
    features: npt.NDArray[Any]
    labels: npt.NDArray[Any]
    names: tuple[str, str]  # of the features and the labels
    num_test: int | None = None


@dataclass(frozen=True)
class FileDataset:
    """A table with a label column (.csv, .parquet, .h5, .arff), or arrays x and y (.npz, .h5).

    All other columns are features, except those in `ignore`. 20 % of the rows are the test split, unless the arrays
    are called train_x, train_y, test_x and test_y. Images are arrays [rows, channels, height, width]; if they hold
    bytes, `mean` and `std` are those of pixels divided by 255.
    """

    path: str | os.PathLike[str]
    seed: int = 42
    label: str | None = None  # name of the label column, or of the array of labels
    ignore: str | Sequence[str] = ()  # columns to leave out, as a list or separated by commas
    hdf5_table: str | None = None  # the table of an HDF5 file to read
    standardise: bool = True  # the features, by the statistics of the training split
    mean: Sequence[float] | None = None  # of images, one number per channel, instead of the statistics
    std: Sequence[float] | None = None  # likewise

    @property
    def info(self) -> DatasetInfo:
        """The description, for which the file is read."""
        samples = self._samples
        return DatasetInfo(
            name=Path(self.path).stem,
            num_features=samples.features[0].numel(),
            num_classes=len(samples.class_names),
            feature_shape=tuple(samples.features.shape[1:]),
            class_names=samples.class_names,
            feature_names=samples.feature_names,
        )

    def load(self) -> Splits:
        """Return the rows of the file in three splits."""
        features, labels, *_, num_test = self._samples
        provenance = f"file {Path(self.path).name}, {counted(len(features), 'row')}"
        if num_test is None:
            splits = split_rows(features, labels, self.seed, provenance, version="file")
        else:
            splits = split_before_test(features, labels, num_test, self.seed, provenance, version="file")
        scaling = given_scaling(self.mean, self.std, features, f"data file '{self.path}'")
        if scaling is not None:
            return scale_features(splits, scaling)
        return standardise(splits) if self.standardise else splits

    @cached_property
    def _samples(self) -> _Samples:
        path = Path(self.path).expanduser()
        where = f"data file '{path}'"
        content = read_content(path, self.hdf5_table)
        names = self.ignore.split(",") if isinstance(self.ignore, str) else self.ignore
        ignore = [name for name in names if name]
        if isinstance(content, Mapping):
            samples = _from_arrays(content, self.label, ignore, where)
        else:
            samples = _from_table(content.rename(columns=str), self.label, ignore, where)
        if len(samples.features) < MIN_ROWS:
            raise ValueError(f"{where} has {counted(len(samples.features), 'row')}, but {MIN_ROWS} are required")
        return samples


def _check_ignored(ignore: Sequence[str], known: Sequence[str], where: str) -> None:
    for name in ignore:
        if name not in known:
            raise ValueError(f"{where} has no '{name}' to ignore; {closest(name, known)}")


def _from_table(frame: DataFrame, label: str | None, ignore: Sequence[str], where: str) -> _Samples:
    _check_ignored(ignore, list(frame.columns), where)
    frame = frame.drop(columns=list(ignore))
    label = pick_label(list(frame.columns), label, where)
    features = frame.drop(columns=label)
    if features.shape[1] == 0:
        raise ValueError(f"{where} has no columns besides the labels")
    for name in (name for name in LABELS if name in features):
        logger.warning(
            "%s: column '%s' is a feature; if it contains the label, leave it out with ignore=", where, name
        )
    labels, class_names = to_classes(frame[label], where)
    return _Samples(to_numbers(features, where), labels, class_names, tuple(features.columns))


def _from_arrays(arrays: Arrays, label: str | None, ignore: Sequence[str], where: str) -> _Samples:
    _check_ignored(ignore, list(arrays), where)
    names_left = [name for name in arrays if name not in ignore]
    found = _find_splits(arrays, names_left, where) or _find_pair(arrays, names_left, label, where)
    features, labels, names, num_test = found
    if not (np.issubdtype(features.dtype, np.number) or features.dtype == bool) or np.iscomplexobj(features):
        raise ValueError(f"{where}: '{names[0]}' must hold numbers, not {features.dtype}")
    rows = features.reshape(len(features), -1)
    numbers = finite(rows, [f"{names[0]}[{i}]" for i in range(rows.shape[1])], where).reshape(features.shape)
    if features.dtype == np.uint8 and features.ndim == IMAGE_DIMS:
        numbers /= WHITE
    numbered, class_names = to_classes(labels.tolist(), where)
    return _Samples(numbers, numbered, class_names, (), num_test)


def _find_splits(arrays: Arrays, known: Sequence[str], where: str) -> _Arrays | None:
    """Return the training rows followed by the test rows, if the file has arrays for both."""
    by_lower = {name.lower(): name for name in known}
    for pattern in SPLIT_NAMES:
        for y, x in ARRAY_PAIRS.items():
            wanted = [pattern.format(split=split, array=array) for split in ("train", "test") for array in (x, y)]
            if all(name in by_lower for name in wanted):
                names = [by_lower[name] for name in wanted]
                train = _pair(arrays, names[0], names[1], where)
                test = _pair(arrays, names[2], names[3], where)
                if train.features.shape[1:] != test.features.shape[1:]:
                    raise ValueError(f"{where}: the samples of '{names[0]}' and '{names[2]}' have different shapes")
                if min(len(train.labels), len(test.labels)) == 0:
                    raise ValueError(f"{where}: '{names[1]}' or '{names[3]}' has no rows")
                features = np.concatenate([train.features, test.features])
                labels = np.concatenate([train.labels, test.labels])
                return _Arrays(features, labels, train.names, len(test.labels))
    return None


def _find_pair(arrays: Arrays, known: Sequence[str], label: str | None, where: str) -> _Arrays:
    labels_name, features_name = _pick_arrays(known, label, where)
    return _pair(arrays, features_name, labels_name, where)


def _pair(arrays: Arrays, features_name: str, labels_name: str, where: str) -> _Arrays:
    features, labels = arrays[features_name], arrays[labels_name]
    if features.ndim < 2 or labels.ndim != 1 or len(features) != len(labels):
        raise ValueError(
            f"{where}: '{features_name}' and '{labels_name}' must have the shapes [rows, ...] and [rows], "
            f"got {list(features.shape)} and {list(labels.shape)}"
        )
    return _Arrays(features, labels, (features_name, labels_name))


def _pick_arrays(arrays: Sequence[str], label: str | None, where: str) -> tuple[str, str]:
    """Return the names of the array of labels and the array of features."""
    by_lower = {name.lower(): name for name in arrays}
    if label is None:
        for labels, features in ARRAY_PAIRS.items():
            if labels in by_lower and features in by_lower:
                return by_lower[labels], by_lower[features]
        raise ValueError(f"{where} has no arrays x and y, nor features and labels; it has {', '.join(arrays)}")
    if label not in arrays:
        raise ValueError(f"{where} has no array '{label}'; {closest(label, arrays)}")
    others = [name for name in arrays if name != label]
    if len(others) != 1:
        raise ValueError(f"{where}: besides '{label}' there must be one array of features, not {len(others)}")
    return label, others[0]
