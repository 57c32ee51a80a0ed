"""The integers of a tensor: their fraction bits and their bounds, element by element."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, cast, get_args

import numpy as np
from numpy.typing import NDArray

from chop.formats.parts.rounding import Rounding

IntArray = NDArray[np.int64]
MAX_WIDTH = 62
"""The widest integer that a program computes with; int64 holds it with room for the carry of a rounding."""


@dataclass(frozen=True, eq=False)
class Signal:
    """Integers between `low` and `high` that stand for `integer * 2**-frac`; all three have the tensor's shape."""

    frac: IntArray
    low: IntArray
    high: IntArray

    @classmethod
    def uniform(cls, shape: tuple[int, ...], frac: int, low: int, high: int) -> Signal:
        """Return a signal whose elements all have the same fraction bits and bounds."""
        return cls(*(np.full(shape, value, dtype=np.int64) for value in (frac, low, high)))

    @property
    def shape(self) -> tuple[int, ...]:
        return self.frac.shape

    @property
    def numel(self) -> int:
        return self.frac.size

    @property
    def signed(self) -> bool:
        """Whether an element can be negative."""
        return bool((self.low < 0).any())

    @property
    def width(self) -> int:
        """The bits of the widest element, with a sign bit if any element is signed; 0 if all elements are 0."""
        return int(self.widths().max(initial=0))

    def widths(self) -> IntArray:
        """Return the bits of each element, flat; with a sign bit if any element is signed."""
        low, high = self.low.ravel().tolist(), self.high.ravel().tolist()
        return np.array([width_of(a, b, self.signed) for a, b in zip(low, high, strict=True)], dtype=np.int64)

    @property
    def largest(self) -> int:
        """The largest magnitude."""
        return int(max(self.high.max(initial=0), -self.low.min(initial=0)))

    def to_real(self, integers: NDArray[np.integer]) -> NDArray[np.float64]:
        """Return the numbers that integers of shape [rows, *shape] stand for."""
        return np.ldexp(integers.astype(np.float64), -self.frac)

    def flat(self) -> Signal:
        """Return the signal with one dimension."""
        return Signal(self.frac.ravel(), self.low.ravel(), self.high.ravel())

    def take(self, index: IntArray) -> Signal:
        """Return the elements at `index` of the flat signal, in the shape of `index`."""
        flat = self.flat()
        return Signal(flat.frac[index], flat.low[index], flat.high[index])


def concatenate(signals: tuple[Signal, ...]) -> Signal:
    """Return the elements of all signals, one after the other."""
    flat = [signal.flat() for signal in signals]
    return Signal(*(np.concatenate([getattr(each, name) for each in flat]) for name in ("frac", "low", "high")))


def width_of(low: int, high: int, signed: bool | None = None) -> int:
    """Return the bits of integers from `low` to `high`: two's complement if `signed`, by default if `low` < 0."""
    if low == high == 0:
        return 0
    if signed is None:
        signed = low < 0
    return max(bits_below_sign(low), bits_below_sign(high)) + signed


def signed_width(low: int, high: int) -> int:
    """Return the bits of signed integers from `low` to `high`, at least 1."""
    return max(1, width_of(low, high, signed=True))


def bits_below_sign(value: int) -> int:
    """Return the bits of an integer in two's complement, without its sign: 2 for 2, but 1 for -2."""
    return (value if value >= 0 else ~value).bit_length()


def counter_bits(count: int) -> int:
    """Return the bits of a counter from 0 to `count - 1`, at least 1."""
    return max(1, (count - 1).bit_length())


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
