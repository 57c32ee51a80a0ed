"""The registry of data sets, and what each of them gives."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, Protocol, TypeVar, runtime_checkable

from torch import Tensor

from chop.registry import Registry


@dataclass(frozen=True)
class DatasetInfo:
    """What models and reports need to know of a data set."""

    name: str
    num_features: int  # numbers a sample, over all its dimensions
    num_classes: int
    feature_shape: tuple[int, ...] = ()  # of one sample; (num_features,) when left out
    class_names: tuple[str, ...] = ()
    feature_names: tuple[str, ...] = ()
    provenance: str = ""  # where these rows come from, in words; known once they are loaded, as the next two
    version: str = ""  # which of several published versions, in a word
    hash: str = ""  # of all the numbers: equal hashes mean equal rows in equal parts

    def __post_init__(self) -> None:
        if not self.feature_shape:
            object.__setattr__(self, "feature_shape", (self.num_features,))
        if math.prod(self.feature_shape) != self.num_features:
            raise ValueError(
                f"data set '{self.name}': samples of shape {self.feature_shape} hold "
                f"{math.prod(self.feature_shape)} numbers, not num_features={self.num_features}"
            )
        for kind, names, count in (
            ("class", self.class_names, self.num_classes),
            ("feature", self.feature_names, self.num_features),
        ):
            if names and len(names) != count:
                raise ValueError(f"data set '{self.name}' has {len(names)} {kind} names for {count}")

    @property
    def title(self) -> str:
        """The name with the provenance in brackets, for logs, tables and pictures."""
        return f"{self.name} ({self.provenance})" if self.provenance else self.name


class Rows(NamedTuple):
    """Samples along the first dimension, and the class number (int64) of each."""

    features: Tensor
    labels: Tensor


@dataclass(frozen=True)
class Scaling:
    """Features in physical units to standardised ones."""

    mean: Tensor
    scale: Tensor

    def __call__(self, features: Tensor) -> Tensor:
        return (features - self.mean) / self.scale


@dataclass(frozen=True)
class Splits:
    """All rows of a data set, in memory; no row is in two parts."""

    train: Rows
    val: Rows
    test: Rows
    provenance: str = ""
    scaling: Scaling | None = None  # what was applied to the features, if anything
    version: str = ""

    @cached_property
    def hash(self) -> str:
        """16 hex digits that change with any bit of any part; worked out once, at about 1 GB/s."""
        digest = hashlib.sha256()
        for tensor in (*self.train, *self.val, *self.test):
            digest.update(f"{tensor.dtype} {tuple(tensor.shape)}".encode())
            digest.update(tensor.detach().cpu().contiguous().flatten().numpy().data)
        return digest.hexdigest()[:16]


class Dataset(Protocol):
    """A data set: what is known beforehand, and the rows."""

    @property
    def info(self) -> DatasetInfo: ...

    def load(self) -> Splits: ...


@runtime_checkable
class Prepared(Protocol):
    """A data set that fetches files beforehand; `load` does so too where that was not done."""

    def prepare(self) -> None: ...


DatasetMaker = Callable[..., Dataset]  # called with seed=... and the data set's own options
D = TypeVar("D", bound=DatasetMaker)
DATASETS: Registry[DatasetMaker] = Registry("data set")


def register_dataset(name: str) -> Callable[[D], D]:
    """A decorator that files a class with `info` and `load()`, or a function giving one, under `name`.

    It is called with its own options by name, `seed` among them if it takes one; every argument has a default.
    """

    def decorate(make: D) -> D:
        DATASETS.add(name, make)
        return make

    return decorate
