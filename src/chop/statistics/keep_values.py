"""All values, as they came."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

import torch
from torch import Tensor

from chop.statistics.base import Statistic, register_statistic
from chop.statistics.layout import Shown


@register_statistic("record")
@dataclass(eq=False)
class Record(Statistic):
    """All tensors joined along their first dimension as `data`, its `count` of values and `size` in bytes.

    The only statistic that grows with the number of samples. Nothing is reduced, whatever `dims` says, and
    NaNs stay in their places.
    """

    _parts: list[Tensor] = field(default_factory=list, init=False, repr=False)

    def take(self, shown: Shown) -> None:
        part = torch.atleast_1d(shown.tensor).to(self.device, copy=True)
        self._check_shape(part)
        self._parts = [*self._parts, part]

    def merge(self, other: Self) -> None:
        self.check_alike(other)
        for part in other._parts[:1]:
            self._check_shape(part)
        self._parts = [*self._parts, *other._parts]

    def compute(self) -> dict[str, Any]:
        if not self._parts:
            return {"count": 0}
        data = torch.cat(self._parts)
        return {"data": data, "count": data.numel(), "size": data.nbytes}

    def save(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        return {}, {"data": torch.cat(self._parts)} if self._parts else {}

    def load(self, header: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> None:
        self._parts = [torch.atleast_1d(tensors["data"])] if "data" in tensors else []

    def _check_shape(self, part: Tensor) -> None:
        if self._parts and part.shape[1:] != self._parts[0].shape[1:]:
            before, now = list(self._parts[0].shape), list(part.shape)
            raise ValueError(f"a tensor of shape {now} cannot be joined to those of shape {before} before it")
