"""Finding features, labels and splits among the arrays of a user's file."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from chop.dataset.readers.arrays import Arrays
from chop.dataset.splits import SPLIT_NAMES, TEST, TRAIN
from chop.registry import closest

logger = logging.getLogger(__name__)

ARRAY_PAIRS = {"y": "x", "labels": "features"}  # names of the labels -> names of the features
PATTERNS = ("{split}_{array}", "{array}_{split}")  # of arrays in a file that has its splits


class FoundArrays(NamedTuple):
    """The features and the labels of a file, with their names."""

    features: npt.NDArray[Any]
    labels: npt.NDArray[Any]
    names: tuple[str, ...]
    """Of the first array of features, and of all others that are used."""
    parts: npt.NDArray[np.int8] | None = None
    """The split of each row, if the names of the arrays say it."""


def find_arrays(arrays: Arrays, label: str | None, ignore: Sequence[str], where: str) -> FoundArrays:
    """Return the arrays of a file that are its samples; log the names of those that are not."""
    known = [name for name in arrays if name not in ignore]
    found = _find_splits(arrays, known, where) if label is None else None
    if found is None:
        labels_name, features_name = _pick_arrays(known, label, where)
        found = _pair(arrays, features_name, labels_name, where)
    unused = [name for name in known if name not in found.names]
    if unused:
        logger.warning("%s: arrays that are not used: %s", where, ", ".join(unused))
    return found


def _find_splits(arrays: Arrays, known: Sequence[str], where: str) -> FoundArrays | None:
    """Return the rows of all splits, if the file has arrays for training and for test rows."""
    by_lower = {name.lower(): name for name in known}
    for pattern in PATTERNS:
        for y, x in ARRAY_PAIRS.items():
            wanted = {
                (pattern.format(split=split, array=x), pattern.format(split=split, array=y)): part
                for split, part in SPLIT_NAMES.items()
            }
            found = [
                (part, _pair(arrays, by_lower[names[0]], by_lower[names[1]], where))
                for names, part in wanted.items()
                if all(name in by_lower for name in names)
            ]
            if {TRAIN, TEST} <= {part for part, _ in found}:
                return _joined(found, where)
    return None


def _joined(found: Sequence[tuple[int, FoundArrays]], where: str) -> FoundArrays:
    """Return the rows of several splits as one; their samples have one shape and type."""
    _, first = found[0]
    for _, each in found:
        if each.features.shape[1:] != first.features.shape[1:]:
            raise ValueError(
                f"{where}: the samples of '{first.names[0]}' and '{each.names[0]}' have different shapes"
            )
        if len(each.labels) == 0:
            raise ValueError(f"{where}: '{each.names[1]}' has no rows")
        if (each.features.dtype == np.uint8) != (first.features.dtype == np.uint8):
            kinds = f"'{first.names[0]}' holds {first.features.dtype}, '{each.names[0]}' {each.features.dtype}"
            raise ValueError(f"{where}: {kinds}; bytes and other numbers have different scales")
    return FoundArrays(
        np.concatenate([each.features for _, each in found]),
        np.concatenate([each.labels for _, each in found]),
        tuple(name for _, each in found for name in each.names),
        np.concatenate([np.full(len(each.labels), part, np.int8) for part, each in found]),
    )


def _pair(arrays: Arrays, features_name: str, labels_name: str, where: str) -> FoundArrays:
    features, labels = arrays[features_name], arrays[labels_name]
    if features.ndim < 2 or labels.ndim != 1 or len(features) != len(labels):
        raise ValueError(
            f"{where}: '{features_name}' and '{labels_name}' must have the shapes [rows, ...] and [rows], "
            f"got {list(features.shape)} and {list(labels.shape)}"
        )
    return FoundArrays(features, labels, (features_name, labels_name))


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
