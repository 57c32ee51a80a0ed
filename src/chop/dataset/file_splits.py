"""The split of each row of a user's file: by a column, by an array, or by the file that has it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from chop.dataset.splits import SPLIT_NAMES, TEST, TRAIN
from chop.registry import closest


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
