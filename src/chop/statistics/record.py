"""All values, unchanged."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

import torch
from torch import Tensor

from chop.statistics.base import Statistic, register_statistic
from chop.statistics.layout import ObservedTensor


@register_statistic("record")
@dataclass(eq=False)
class Record(Statistic):
    """All tensors, concatenated along their first dimension, as `data`; its `count` of values and `size` in bytes.

    Memory grows with the number of rows: about twice their size. `dims` is ignored, nothing is reduced, and NaNs
    are kept.
    """

    _parts: list[Tensor] = field(default_factory=list, init=False, repr=False)

    def update_from(self, observed: ObservedTensor) -> None:
        part = torch.atleast_1d(observed.tensor).to(self.device, copy=True)
        self._check_shape(part)
        self._parts = _joined([*self._parts, part])

    def merge(self, other: Self) -> None:
        self.check_mergeable(other)
        for part in other._parts[:1]:
            self._check_shape(part)
        self._parts = _joined([*self._parts, *other._parts])

    def compute(self) -> dict[str, Any]:
        if not self._parts:
            return {"count": 0}
        data = self._data()
        return {"data": data, "count": data.numel(), "size": data.nbytes}

    def save(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        return {}, {"data": self._data()} if self._parts else {}

    def load(self, header: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> None:
        self._parts = [torch.atleast_1d(tensors["data"])] if "data" in tensors else []

    def _data(self) -> Tensor:
        if len(self._parts) > 1:
            self._parts = [torch.cat(self._parts)]
        return self._parts[0]

    def _check_shape(self, part: Tensor) -> None:
        if self._parts and part.shape[1:] != self._parts[0].shape[1:]:
            before, now = list(self._parts[0].shape), list(part.shape)
            raise ValueError(f"a tensor of shape {now} cannot be concatenated with earlier ones of shape {before}")


def _joined(parts: list[Tensor]) -> list[Tensor]:
    """Concatenate parts at the end until each is larger than the next: a million small ones would need 30 times the
    memory of their values, and joining two of similar size copies each value only log2(parts) times."""
    while len(parts) > 1 and len(parts[-2]) <= len(parts[-1]):
        parts = [*parts[:-2], torch.cat(parts[-2:])]
    return parts
