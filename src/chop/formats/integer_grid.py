"""Integers as the elements of blocks."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from chop.formats.bits import refuse_nan
from chop.formats.kernels.families import Element, integer_element
from chop.formats.rounding import Rounding, round_


@dataclass(frozen=True)
class IntegerGrid:
    """The integers from -limit to limit, which are their own codes."""

    limit: int

    def round_(self, x: Tensor, rounding: Rounding = "nearest_even") -> Tensor:
        """Round to the nearest values, saturating, in place if possible; use the return value."""
        return round_(x, rounding).clamp_(-self.limit, self.limit)

    def loop_element(self, rounding: Rounding) -> Element | None:
        """Return how a compiled loop rounds to these integers."""
        return integer_element(rounding, -self.limit, self.limit)

    def integers(self, values: Tensor) -> tuple[Tensor, Tensor]:
        """Return numbers on the grid as integers, and the unit of each."""
        return self.encode(values), torch.ones_like(values)

    def encode(self, values: Tensor) -> Tensor:
        """Return the codes of numbers on the grid."""
        refuse_nan(values)
        return values.long()

    def decode(self, codes: Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
        """Return the numbers of codes."""
        return codes.to(dtype)

    def all_codes(self) -> Tensor:
        """Return all codes."""
        return torch.arange(-self.limit, self.limit + 1)
