"""The interface of a statistic: options, updates with one tensor at a time, and a result."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, Generic, Literal, Self, TypeVar, get_type_hints

import torch
from torch import Tensor

from chop.options import read_options
from chop.registry import Registry
from chop.statistics.layout import GroupedValues, Layout, ObservedTensor
from chop.statistics.state import State, check_tensor, find_component, from_tensors, to_tensors


@dataclass(eq=False)
class Statistic(ABC):
    """A summary of all tensors given to `update`. The fields of a subclass are its options.

    NaNs are left out and counted separately: a result has `nan_count` if there are any, and `count` without them.
    """

    name: ClassVar[str]
    dims: Literal["all"] | tuple[int, ...] | None = "all"
    """The dimensions to reduce; None reduces over updates only. Results are numbers for "all", else tensors."""
    device: str | None = None
    """The device to compute and keep the state on; None for the device of the tensors."""
    keep: tuple[int, ...] | None = None
    """The dimensions not to reduce, instead of `dims`: [1] gives one result per channel of images."""

    def __post_init__(self) -> None:
        if self.keep is not None and self.dims != "all":
            raise ValueError("give either 'dims', the dimensions to reduce, or 'keep', those not to reduce")
        if self.device is not None:
            try:
                torch.device(self.device)
            except RuntimeError as error:
                raise ValueError(f"'device' is not a torch device: {error}") from error

    def __copy__(self) -> Self:
        copied = object.__new__(type(self))  # much faster than `copy.copy`, for thousands of tensors
        vars(copied).update(vars(self))
        return copied

    def update(self, tensor: Tensor) -> None:
        """Add a tensor. No reference to it is kept."""
        self.update_from(ObservedTensor(tensor))

    @abstractmethod
    def update_from(self, observed: ObservedTensor) -> None:
        """Add a tensor that other statistics observe too, and share intermediate results with them."""

    @abstractmethod
    def merge(self, other: Self) -> None:
        """Add everything that `other`, a statistic with the same options, has observed."""

    @abstractmethod
    def compute(self) -> dict[str, Any]:
        """Return the result so far; only `count`, which is 0, if there are no values yet."""

    @abstractmethod
    def save(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        """Return the state as JSON values and named tensors."""

    @abstractmethod
    def load(self, header: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> None:
        """Restore what `save` returned; raise an error if it is not a valid state."""

    def check_mergeable(self, other: Statistic) -> None:
        """Raise ValueError if `other` is another statistic or has other options."""
        if type(self) is not type(other) or self.options() != other.options():
            raise ValueError(f"only statistics with the same options can be merged, not {self} and {other}")

    def options(self) -> dict[str, object]:
        """Return all options except the device."""
        return {f.name: getattr(self, f.name) for f in fields(self) if f.init and f.name != "device"}


S = TypeVar("S", bound=State)
T = TypeVar("T")


@dataclass(frozen=True)
class Total(Generic[S]):
    """What a reduction has observed so far."""

    kept_shape: torch.Size
    count: Tensor
    nan_count: Tensor
    state: S

    def merged(self, other: Total[S]) -> Total[S]:
        if self.kept_shape != other.kept_shape:
            raise ValueError(
                f"the dimensions that are not reduced changed from {list(self.kept_shape)} to "
                f"{list(other.kept_shape)}; reduce more dimensions, or use batches of one size"
            )
        return Total(
            self.kept_shape,
            self.count + other.count,
            self.nan_count + other.nan_count,
            self.state.merged(other.state),
        )


@dataclass(eq=False)
class Reduction(Statistic, Generic[S]):
    """A statistic with a state of bounded size, unless its option `precise` keeps all values."""

    always_has_nan_count: ClassVar[bool] = False
    """Whether results have `nan_count` even if it is 0."""
    needs_moments_only: ClassVar[bool] = False
    """Whether `observe` works on `MeasuredGroups`, without the values."""
    _total: Total[S] | None = field(default=None, init=False, repr=False)

    @abstractmethod
    def observe(self, grouped: GroupedValues) -> S:
        """Return the state for one tensor."""

    @abstractmethod
    def summarize(self, state: S, count: Tensor) -> dict[str, Tensor]:
        """Return the results by name, each of shape [groups, ...]; `count` is the number of values per group."""

    def update_from(self, observed: ObservedTensor) -> None:
        if observed.tensor.numel() == 0:
            return
        self.update_from_groups(observed.grouped(self.layout))

    def update_from_groups(self, grouped: GroupedValues) -> None:
        """Add a tensor that has the layout of this statistic."""
        state = self.observe(grouped)  # first: it may find the extremes, which the counts need
        self._add(Total(grouped.kept_shape, grouped.count, grouped.nan_count, state))

    def merge(self, other: Self) -> None:
        self.check_mergeable(other)
        if other._total is not None:
            self._add(other._total)

    def compute(self) -> dict[str, Any]:
        if self._total is None:
            return {"count": 0}
        results = {
            **self.summarize(self._total.state, self._total.count),
            "count": self._total.count,
        }
        if self.always_has_nan_count or self._total.nan_count.any():
            results["nan_count"] = self._total.nan_count
        return {name: self._presented(result) for name, result in results.items()}

    def save(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        if self._total is None:
            return {}, {}
        counts = {"count": self._total.count, "nan_count": self._total.nan_count}
        return {"kept_shape": list(self._total.kept_shape)}, counts | to_tensors(self._total.state, "state.")

    def load(self, header: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> None:
        if not tensors:
            return
        kept_shape = torch.Size(header["kept_shape"])
        if min(kept_shape, default=1) < 1 or (self.is_single and kept_shape):
            raise ValueError(f"results cannot have shape {list(kept_shape)}")
        total = Total(kept_shape, tensors["count"], tensors["nan_count"], self._state(tensors))
        for counts in (total.count, total.nan_count):
            check_tensor(counts, torch.int64, kept_shape.numel())
            if bool((counts < 0).any()):
                raise ValueError("a count is negative")
        total.state.check(total.count)
        self._total = total

    @property
    def layout(self) -> Layout:
        return Layout(self.dims, self.keep, self.device)

    @property
    def total(self) -> Total[S] | None:
        """What was observed so far; None if there are no values yet."""
        return self._total

    def component(self, kind: type[T]) -> T | None:
        """Return the part of the state with a class, such as `Distribution`; None if there is none."""
        return None if self._total is None else find_component(self._total.state, kind)

    @classmethod
    def _state(cls, tensors: Mapping[str, Tensor]) -> S:
        kind: type[S] = get_type_hints(cls.observe)["return"]
        return from_tensors(kind, tensors, "state.")

    @property
    def is_single(self) -> bool:
        """Whether all values form one group."""
        return self.dims == "all" and self.keep is None

    def _add(self, total: Total[S]) -> None:
        self._total = total if self._total is None else self._total.merged(total)

    def _presented(self, result: Tensor) -> Tensor | float | int:
        assert self._total is not None, "there are no results without values"
        if self.is_single and result.ndim == 1:
            return result.item()
        return result.reshape(self._total.kept_shape + result.shape[1:])


STATISTICS: Registry[type[Statistic]] = Registry("statistic")
StatisticClass = TypeVar("StatisticClass", bound=type[Statistic])


def register_statistic(name: str) -> Callable[[StatisticClass], StatisticClass]:
    """Register a statistic under the name that `pass_args` use; goes above `@dataclass`."""

    def named(statistic_class: type[Statistic]) -> type[Statistic]:
        statistic_class.name = name
        return statistic_class

    return STATISTICS.register(name, named)


def make_statistic(name: str, options: Mapping[str, Any] | None, where: str) -> Statistic:
    """Return the statistic `name` with a user's options; `where` begins each error message."""
    return read_options(STATISTICS[name], options, f"{where}: '{name}'")
