"""What a statistic is: options, tensors taken in one at a time, and a result that does not need them again."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, Generic, Literal, Self, TypeVar, get_type_hints

import torch
from torch import Tensor

from chop.options import read_options
from chop.registry import Registry
from chop.statistics.layout import Layout, Sample, Shown
from chop.statistics.state import State, check_tensor, find_part, from_tensors, to_tensors


@dataclass(eq=False)
class Statistic(ABC):
    """A summary of all tensors given to `update`. The fields of a subclass are its options.

    NaNs are left out and counted apart: a result has `nan_count` if there were any, and `count` without them.
    """

    name: ClassVar[str]
    dims: Literal["all"] | tuple[int, ...] | None = "all"
    """The dimensions to reduce; None reduces over updates only. Results are numbers for "all", else tensors."""
    device: str | None = None
    """Where to compute and keep the state; None: where the tensors are."""
    keep: tuple[int, ...] | None = None
    """The dimensions not to reduce, in the place of `dims`: [1] gives a result for each channel of images."""

    def __post_init__(self) -> None:
        if self.keep is not None and self.dims != "all":
            raise ValueError("'dims' says what to reduce and 'keep' what not to: give one of them")
        if self.device is not None:
            try:
                torch.device(self.device)
            except RuntimeError as error:
                raise ValueError(f"'device' is no device of torch: {error}") from error

    def update(self, tensor: Tensor) -> None:
        """Take in a tensor; nothing of it is referred to afterwards."""
        self.take(Shown(tensor))

    @abstractmethod
    def take(self, shown: Shown) -> None:
        """The same, with what other statistics found out about the tensor already."""

    @abstractmethod
    def merge(self, other: Self) -> None:
        """Take in all that `other`, with the same options, has seen."""

    @abstractmethod
    def compute(self) -> dict[str, Any]:
        """The result so far; only `count`, which is 0, if there were no values yet."""

    @abstractmethod
    def save(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        """All that was seen: plain values, and tensors by name."""

    @abstractmethod
    def load(self, header: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> None:
        """Take up what `save` gave; raises where that cannot be."""

    def check_alike(self, other: Statistic) -> None:
        """Raises where two statistics with different options are merged."""
        if type(self) is not type(other) or self.options() != other.options():
            raise ValueError(f"only statistics with the same options can be merged, not {self} and {other}")

    def options(self) -> dict[str, object]:
        """What it was made with, but for the device."""
        return {f.name: getattr(self, f.name) for f in fields(self) if f.init and f.name != "device"}


S = TypeVar("S", bound=State)
T = TypeVar("T")


@dataclass(frozen=True)
class _Seen(Generic[S]):
    """What a reduction knows so far."""

    kept_shape: torch.Size
    count: Tensor
    nan_count: Tensor
    state: S

    def merged(self, other: _Seen[S]) -> _Seen[S]:
        if self.kept_shape != other.kept_shape:
            raise ValueError(
                f"dimensions that are not reduced changed from {list(self.kept_shape)} to "
                f"{list(other.kept_shape)}; reduce more of them, or keep batches to one size"
            )
        return _Seen(
            self.kept_shape,
            self.count + other.count,
            self.nan_count + other.nan_count,
            self.state.merged(other.state),
        )


@dataclass(eq=False)
class Reduction(Statistic, Generic[S]):
    """A statistic whose state does not grow with the number of values seen, unless it is told to be precise."""

    tells_nans: ClassVar[bool] = False
    """Whether results have `nan_count` even if it is 0."""
    _seen: _Seen[S] | None = field(default=None, init=False, repr=False)

    @abstractmethod
    def observe(self, sample: Sample) -> S:
        """The state after one tensor."""

    @abstractmethod
    def summarize(self, state: S, count: Tensor) -> dict[str, Tensor]:
        """The results, each of shape [groups]; `count` values were seen of each group, NaNs left out."""

    def take(self, shown: Shown) -> None:
        if shown.tensor.numel() == 0:
            return
        sample = shown.sample(Layout(self.dims, self.keep, self.device))
        self._take(_Seen(sample.kept_shape, sample.count, sample.nan_count, self.observe(sample)))

    def merge(self, other: Self) -> None:
        self.check_alike(other)
        if other._seen is not None:
            self._take(other._seen)

    def compute(self) -> dict[str, Any]:
        if self._seen is None:
            return {"count": 0}
        results = {**self.summarize(self._seen.state, self._seen.count), "count": self._seen.count}
        if self.tells_nans or self._seen.nan_count.any():
            results["nan_count"] = self._seen.nan_count
        return {name: self._presented(result) for name, result in results.items()}

    def save(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        if self._seen is None:
            return {}, {}
        counts = {"count": self._seen.count, "nan_count": self._seen.nan_count}
        return {"kept_shape": list(self._seen.kept_shape)}, counts | to_tensors(self._seen.state, "state.")

    def load(self, header: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> None:
        if not tensors:
            return
        kept_shape = torch.Size(header["kept_shape"])
        if min(kept_shape, default=1) < 1 or (self._is_single and kept_shape):
            raise ValueError(f"there cannot be results of shape {list(kept_shape)}")
        seen = _Seen(kept_shape, tensors["count"], tensors["nan_count"], self._state(tensors))
        for counts in (seen.count, seen.nan_count):
            check_tensor(counts, torch.int64, kept_shape.numel())
            if bool((counts < 0).any()):
                raise ValueError("there cannot be fewer than no values")
        seen.state.check(seen.count)
        self._seen = seen

    def part(self, kind: type[T]) -> T | None:
        """What of the state is of a kind, such as the Distribution or the Extremes, if anything is."""
        return None if self._seen is None else find_part(self._seen.state, kind)

    @classmethod
    def _state(cls, tensors: Mapping[str, Tensor]) -> S:
        kind: type[S] = get_type_hints(cls.observe)["return"]
        return from_tensors(kind, tensors, "state.")

    @property
    def _is_single(self) -> bool:
        """Whether all values are one group."""
        return self.dims == "all" and self.keep is None

    def _take(self, seen: _Seen[S]) -> None:
        self._seen = seen if self._seen is None else self._seen.merged(seen)

    def _presented(self, result: Tensor) -> Tensor | float | int:
        assert self._seen is not None, "results are of something seen"
        if self._is_single and result.ndim == 1:
            return result.item()
        return result.reshape(self._seen.kept_shape + result.shape[1:])


STATISTICS: Registry[type[Statistic]] = Registry("statistic")
StatisticClass = TypeVar("StatisticClass", bound=type[Statistic])


def register_statistic(name: str) -> Callable[[StatisticClass], StatisticClass]:
    """Files a statistic under the name that pass_args use; stands above `@dataclass`."""

    def decorate(statistic_class: StatisticClass) -> StatisticClass:
        statistic_class.name = name
        STATISTICS.add(name, statistic_class)
        return statistic_class

    return decorate


def make_statistic(name: str, options: Mapping[str, Any] | None, where: str) -> Statistic:
    """The statistic `name`, made from a user's options; `where` begins each error message."""
    return read_options(STATISTICS[name], options, f"{where}: '{name}'")
