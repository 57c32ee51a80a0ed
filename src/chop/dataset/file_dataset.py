"""A data set from a user's file."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from torch import Tensor

from chop.dataset.base import DatasetInfo, Splits
from chop.dataset.columns import LABELS, finite, pick_label, to_classes, to_numbers
from chop.dataset.readers import read_content
from chop.dataset.readers.npz import Arrays
from chop.dataset.splits import split_rows, standardise
from chop.registry import closest

if TYPE_CHECKING:
    from pandas import DataFrame

logger = logging.getLogger(__name__)

ARRAY_PAIRS = {"y": "x", "labels": "features"}  # names of the labels -> names of the features
MIN_ROWS = 10  # so that no split is empty


class _Samples(NamedTuple):
    features: Tensor
    labels: Tensor
    class_names: tuple[str, ...]
    feature_names: tuple[str, ...]


@dataclass(frozen=True)
class FileDataset:
    """A table with a label column (.csv, .parquet, .h5, .arff), or arrays x and y (.npz, .h5).

    All other columns are features, except those in `ignore`. 20 % of the rows are the test split.
    """

    path: str | os.PathLike[str]
    seed: int = 42
    label: str | None = None  # name of the label column, or of the array of labels
    ignore: str | Sequence[str] = ()  # columns to leave out, as a list or separated by commas
    hdf5_table: str | None = None  # the table of an HDF5 file to read
    standardise: bool = True  # the features, by the statistics of the training split

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
        features, labels, *_ = self._samples
        provenance = f"file {Path(self.path).name}, {len(features):,} rows"
        splits = split_rows(features, labels, self.seed, provenance, version="file")
        return standardise(splits) if self.standardise else splits

    @cached_property
    def _samples(self) -> _Samples:
        path = Path(self.path).expanduser()
        where = f"data file '{path}'"
        content = read_content(path, self.hdf5_table)
        names = self.ignore.split(",") if isinstance(self.ignore, str) else self.ignore
        ignore = [name for name in names if name]
        if isinstance(content, dict):
            samples = _from_arrays(content, self.label, ignore, where)
        else:
            samples = _from_table(content.rename(columns=str), self.label, ignore, where)
        if len(samples.features) < MIN_ROWS:
            raise ValueError(f"{where} has {len(samples.features)} rows, but {MIN_ROWS} are required")
        return samples


def _check_ignored(ignore: Sequence[str], known: Sequence[str], where: str) -> None:
    for name in ignore:
        if name not in known:
            raise ValueError(f"{where} has no '{name}' to ignore, {closest(name, known)}")


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
    arrays = {name: array for name, array in arrays.items() if name not in ignore}
    labels_name, features_name = _pick_arrays(arrays, label, where)
    features, labels = arrays[features_name], arrays[labels_name]
    if features.ndim < 2 or labels.ndim != 1 or len(features) != len(labels):
        raise ValueError(
            f"{where}: '{features_name}' and '{labels_name}' must have the shapes [rows, ...] and [rows], "
            f"got {list(features.shape)} and {list(labels.shape)}"
        )
    if not (np.issubdtype(features.dtype, np.number) or features.dtype == bool) or np.iscomplexobj(features):
        raise ValueError(f"{where}: '{features_name}' must hold numbers, not {features.dtype}")
    rows = features.reshape(len(features), -1)
    numbers = finite(rows, [f"{features_name}[{i}]" for i in range(rows.shape[1])], where)
    numbered, class_names = to_classes(labels.tolist(), where)
    return _Samples(numbers.reshape(features.shape), numbered, class_names, ())


def _pick_arrays(arrays: Mapping[str, object], label: str | None, where: str) -> tuple[str, str]:
    """Return the names of the array of labels and the array of features."""
    by_lower = {name.lower(): name for name in arrays}
    if label is None:
        for labels, features in ARRAY_PAIRS.items():
            if labels in by_lower and features in by_lower:
                return by_lower[labels], by_lower[features]
        raise ValueError(f"{where} has no arrays x and y, nor features and labels; it has {', '.join(arrays)}")
    if label not in arrays:
        raise ValueError(f"{where} has no array '{label}', {closest(label, arrays)}")
    others = [name for name in arrays if name != label]
    if len(others) != 1:
        raise ValueError(f"{where}: besides '{label}' there must be one array of features, not {len(others)}")
    return label, others[0]
