"""Fixed-point formats that would do for given values."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from chop.formats.integer import Integer
from chop.statistics.deviation import decibel

WIDTHS = range(2, 17)
"""Widths that a suggestion may have."""


@dataclass(frozen=True)
class Suggestion:
    """A format, and the SQNR that the values would have in it."""

    format: Integer
    sqnr_db: float


def best_of_width(values: Tensor, width: int, is_signed: bool = True) -> Suggestion | None:
    """The fraction bits with the least noise; None where all values are 0.

    From those that leave room for the largest value on: fewer would only be coarser. Few large values may well
    saturate for the sake of all others.
    """
    largest = values.abs().max().item() if values.numel() else 0.0
    if largest == 0:
        return None
    fewest = Integer(width, 0, is_signed=is_signed).fitted(largest).frac_width
    assert isinstance(fewest, int), "a fitted format has its fraction bits"
    tried = [Integer(width, min(fewest + more, 126), is_signed=is_signed) for more in range(width + 1)]
    signal = values.dot(values).item()
    return max((Suggestion(each, _sqnr(values, each, signal)) for each in tried), key=lambda found: found.sqnr_db)


def narrowest(values: Tensor, sqnr_db: float, is_signed: bool = True) -> Suggestion | None:
    """The format of the least width that reaches `sqnr_db`; None where none of up to 16 bits does."""
    for width in WIDTHS:
        found = best_of_width(values, width, is_signed)
        if found is None or found.sqnr_db >= sqnr_db:
            return found
    return None


def _sqnr(values: Tensor, number_format: Integer, signal: float) -> float:
    error = number_format.quantize(values).sub_(values)
    return decibel(signal, error.dot(error).item())
