"""Division of integers by powers of two, rounded as the number formats round."""

from __future__ import annotations

from typing import Any, Literal, cast, get_args

from numpy.typing import NDArray

from chop.formats.parts.rounding import Rounding

ExactRounding = Literal["nearest_even", "nearest_away", "floor", "towards_zero"]
"""The rounding modes that a circuit can repeat: all but `stochastic`."""


def exact_rounding(rounding: Rounding, where: str) -> ExactRounding:
    """Return a rounding mode; raise an error that starts with `where` if its results are random."""
    if rounding not in get_args(ExactRounding):
        known = ", ".join(get_args(ExactRounding))
        raise ValueError(f"{where}: rounding '{rounding}' cannot be repeated in hardware; use one of {known}")
    return cast(ExactRounding, rounding)


def shift_right(a: NDArray[Any], shift: int, rounding: ExactRounding) -> NDArray[Any]:
    """Return `a / 2**shift`, rounded to integers; a negative shift multiplies."""
    if shift <= 0:
        scaled: NDArray[Any] = a << -shift
        return scaled
    one = a.dtype.type(1)
    half = one << (shift - 1)
    added: NDArray[Any] | int
    match rounding:
        case "floor":
            added = 0
        case "towards_zero":
            added = (a < 0) * ((one << shift) - one)
        case "nearest_away":
            added = half - (a < 0)
        case "nearest_even":
            added = half - one + ((a >> shift) & one)
    rounded: NDArray[Any] = (a + added) >> shift
    return rounded
