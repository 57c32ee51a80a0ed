"""The registry of data sets, and their interface."""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, NamedTuple, Protocol, TypeVar, runtime_checkable

from torch import Tensor

from chop.registry import Registry


@dataclass(frozen=True)
class DatasetInfo:
    """What models and reports need to know about a data set."""

    name: str
    num_features: int  # numbers per sample, over all its dimensions
    num_classes: int
    feature_shape: tuple[int, ...] = ()  # of one sample; the default is (num_features,)
    class_names: tuple[str, ...] = ()
    feature_names: tuple[str, ...] = ()
    kind: Literal["numbers", "tokens"] = "numbers"  # of features; tokens are the ids of a tokenizer
    provenance: str = ""  # where the rows come from, as text; like the next two, known after loading
    version: str = ""  # which of several published versions, in one word

    def __post_init__(self) -> None:
        if not self.feature_shape:
            object.__setattr__(self, "feature_shape", (self.num_features,))
        if math.prod(self.feature_shape) != self.num_features:
            raise ValueError(
                f"data set '{self.name}': samples of shape {self.feature_shape} have "
                f"{math.prod(self.feature_shape)} numbers, not num_features={self.num_features}"
            )
        for kind, names, count in (
            ("classes", self.class_names, self.num_classes),
            ("features", self.feature_names, self.num_features),
        ):
            if names and len(names) != count:
                raise ValueError(f"data set '{self.name}' has {len(names)} names for {count} {kind}")

    @property
    def title(self) -> str:
        """The name with the provenance in parentheses, for logs, tables and plots."""
        return f"{self.name} ({self.provenance})" if self.provenance else self.name


class Rows(NamedTuple):
    """Samples along the first dimension, and the class index (int64) of each."""

    features: Tensor
    labels: Tensor


@dataclass(frozen=True)
class Scaling:
    """The standardisation of features: `(features - mean) / scale`."""

    mean: Tensor
    scale: Tensor

    def __call__(self, features: Tensor) -> Tensor:
        return (features - self.mean) / self.scale


@dataclass(frozen=True)
class Splits:
    """All rows of a data set, in memory; no row is in two splits."""

    train: Rows
    val: Rows
    test: Rows
    provenance: str = ""
    scaling: Scaling | None = None  # what was applied to the features; None if nothing
    version: str = ""
    split: str = "by the data set"  # how rows were divided, as text
    values: str = "as the data set returns them"  # what was done to the features, as text

    @cached_property
    def sha256(self) -> str:
        """The SHA-256 of all rows, computed once."""
        digest = hashlib.sha256()
        for tensor in (*self.train, *self.val, *self.test):
            digest.update(tensor.contiguous().numpy().data)
        return digest.hexdigest()


Normalize = Literal["standard", "unit", "none"]


@dataclass(frozen=True, kw_only=True)
class Seeded:
    """The option of data sets whose rows, or splits, are drawn."""

    seed: int = 42
    """Draws the rows of the validation split; for generated rows also their values and those of the test split."""


@dataclass(frozen=True, kw_only=True)
class Normalized(Seeded):
    """The option of data sets whose values can be left as they are."""

    normalize: Normalize = "standard"
    """standard: mean 0 and deviation 1; unit: bytes of images divided by the largest only; none: as in the file."""


@dataclass(frozen=True, kw_only=True)
class Published:
    """The option of data sets that are downloaded."""

    path: str | os.PathLike[str] | None = None
    """File or folder with the original files, which are then not downloaded."""


@dataclass(frozen=True, kw_only=True)
class ChannelScaling:
    """The options of images that are scaled as a model expects, rather than by their own statistics."""

    mean: Sequence[float] | None = None
    """One number per channel, instead of that of the training images."""
    std: Sequence[float] | None = None
    """Likewise, the standard deviation."""


class Dataset(Protocol):
    """A data set: its description, and its rows."""

    @property
    def info(self) -> DatasetInfo:
        """The description, which is available before the rows are loaded."""
        ...

    def load(self) -> Splits:
        """Return the rows."""
        ...


@runtime_checkable
class Prepared(Protocol):
    """A data set that downloads files; `load` does so too if they are missing."""

    def prepare(self) -> None:
        """Download what is missing."""
        ...


DatasetMaker = Callable[..., Dataset]  # called with seed=... and the options of the data set
D = TypeVar("D", bound=DatasetMaker)
DATASETS: Registry[DatasetMaker] = Registry("data set")


def register_dataset(name: str) -> Callable[[D], D]:
    """Register a class with `info` and `load()`, or a function that returns an instance of one, under `name`.

    It is called with its options as keyword arguments, and with `seed` if it takes one. Every argument needs
    a default.
    """
    return DATASETS.register(name)
