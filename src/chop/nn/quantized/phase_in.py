"""Rounding that is phased in during training, from float to the formats."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

_share = 1.0


@contextmanager
def rounding_share(share: float) -> Iterator[None]:
    """Let all quantised layers and calls use `x + share * (rounded - x)`: 0 is float, 1 rounds as usual."""
    global _share  # not a ContextVar, which torch.compile cannot read
    before, _share = _share, share
    try:
        yield
    finally:
        _share = before


def is_partial() -> bool:
    """Whether values are rounded in part only."""
    return _share < 1


def phased_in(value: Tensor, rounded: Tensor) -> Tensor:
    """Return a rounded value, or one between it and the original while rounding is phased in."""
    return rounded if _share >= 1 else torch.lerp(value, rounded, _share)
