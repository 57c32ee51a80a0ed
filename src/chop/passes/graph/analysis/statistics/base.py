"""What a statistic is: options, tensors taken in one at a time, and a result that does not need them again."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, Generic, Literal, Protocol, Self, TypeVar

import torch
from torch import Tensor

from chop.options import read_options
from chop.passes.graph.analysis.statistics.sample import Sample, arrange
from chop.registry import Registry


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

    def __post_init__(self) -> None:
        if self.device is not None:
            try:
                torch.device(self.device)
            except RuntimeError as error:
                raise ValueError(f"'device' is no device of torch: {error}") from error

    @abstractmethod
    def update(self, tensor: Tensor) -> None:
        """Take in a tensor; nothing of it is referred to afterwards."""

    @abstractmethod
    def merge(self, other: Self) -> None:
        """Take in all that `other`, with the same options, has seen."""

    @abstractmethod
    def compute(self) -> dict[str, Any]:
        """The result so far; only `count`, which is 0, if there were no values yet."""

    def check_alike(self, other: Statistic) -> None:
        """Raises where two statistics with different options are merged."""
        if type(self) is not type(other) or self._options() != other._options():
            raise ValueError(f"only statistics with the same options can be merged, not {self} and {other}")

    def _options(self) -> dict[str, object]:
        return {f.name: getattr(self, f.name) for f in fields(self) if f.init and f.name != "device"}


class State(Protocol):
    """What a reduction remembers, of each group of values. States are never changed, only merged."""

    def merged(self, other: Self) -> Self: ...


S = TypeVar("S", bound=State)


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
    """A statistic whose state does not grow with the number of values seen."""

    _seen: _Seen[S] | None = field(default=None, init=False, repr=False)

    @abstractmethod
    def observe(self, sample: Sample) -> S:
        """The state after one tensor."""

    @abstractmethod
    def summarize(self, state: S, count: Tensor) -> dict[str, Tensor]:
        """The results, each of shape [groups]; `count` values were seen of each group, NaNs left out."""

    def update(self, tensor: Tensor) -> None:
        if tensor.numel() == 0:
            return
        sample = arrange(tensor, self.dims, self.device)
        self._take(_Seen(sample.kept_shape, sample.count, sample.nan_count, self.observe(sample)))

    def merge(self, other: Self) -> None:
        self.check_alike(other)
        if other._seen is not None:
            self._take(other._seen)

    def compute(self) -> dict[str, Any]:
        if self._seen is None:
            return {"count": 0}
        results = {**self.summarize(self._seen.state, self._seen.count), "count": self._seen.count}
        if self._seen.nan_count.any():
            results["nan_count"] = self._seen.nan_count
        return {name: self._presented(result) for name, result in results.items()}

    def _take(self, seen: _Seen[S]) -> None:
        self._seen = seen if self._seen is None else self._seen.merged(seen)

    def _presented(self, result: Tensor) -> Tensor | float | int:
        assert self._seen is not None, "results are of something seen"
        return result.item() if self.dims == "all" else result.reshape(self._seen.kept_shape)


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
