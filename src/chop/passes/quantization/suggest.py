"""Suggestions of fixed-point formats for given values."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from chop.formats.integer import Integer
from chop.statistics.deviation import decibel

WIDTHS = range(2, 17)
"""The widths that are tried."""


@dataclass(frozen=True)
class Suggestion:
    """A format, and the SQNR that the values would have in it."""

    format: Integer
    sqnr_db: float


def best_of_width(values: Tensor, width: int, is_signed: bool = True) -> Suggestion | None:
    """Return the format of a width whose fraction bits give the least noise; None if all values are 0.

    The search starts with the largest number of fraction bits that can represent the largest value. With more, a
    few large values saturate, which can still reduce the noise of all others.
    """
    largest = values.abs().max().item() if values.numel() else 0.0
    if largest == 0:
        return None
    fewest = Integer(width, 0, is_signed=is_signed).fitted(largest).frac_width
    assert isinstance(fewest, int), "a fitted format has its fraction bits"
    fractions = [min(fewest + more, 126) for more in range(width + 1)]
    # All numbers of fraction bits are tried together: rounding to steps of 1/4 is rounding 4 x to integers.
    factors = torch.tensor([[2.0**fraction] for fraction in fractions], dtype=values.dtype, device=values.device)
    errors = Integer(width, 0, is_signed=is_signed).quantize(values * factors).div_(factors).sub_(values)
    signal, noises = values.dot(values).item(), errors.square_().sum(1).tolist()
    ratios = [decibel(signal, noise) for noise in noises]
    best = ratios.index(max(ratios))
    return Suggestion(Integer(width, fractions[best], is_signed=is_signed), ratios[best])


def narrowest(values: Tensor, sqnr_db: float, is_signed: bool = True) -> Suggestion | None:
    """Return the narrowest format that reaches `sqnr_db`; None if no format of up to 16 bits does."""
    for width in WIDTHS:
        found = best_of_width(values, width, is_signed)
        if found is None or found.sqnr_db >= sqnr_db:
            return found
    return None
