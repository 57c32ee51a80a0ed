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

    Memory grows with the number of rows. `dims` is ignored, nothing is reduced, and NaNs are kept.
    """

    _parts: list[Tensor] = field(default_factory=list, init=False, repr=False)

    def update_from(self, observed: ObservedTensor) -> None:
        part = torch.atleast_1d(observed.tensor).to(self.device, copy=True)
        self._check_shape(part)
        self._parts = [*self._parts, part]

    def merge(self, other: Self) -> None:
        self.check_mergeable(other)
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
            raise ValueError(f"a tensor of shape {now} cannot be concatenated with earlier ones of shape {before}")
