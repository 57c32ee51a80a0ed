"""Tables of numbers by width in bits, as users write them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import pairwise


def by_width(table: Mapping[int | str, float], what: str) -> dict[int, float]:
    """The table with its widths as integers, narrowest first: keys of TOML are words."""
    found = {_width(width, what): number for width, number in table.items()}
    if not found:
        raise ValueError(f"{what} must list one width at least, such as {{8 = 1e12}}")
    for width, number in found.items():
        if not (number > 0 and math.isfinite(number)):
            raise ValueError(f"{what} must be positive numbers, got {number} for {width} bits")
    return dict(sorted(found.items()))


def _width(width: int | str, what: str) -> int:
    if str(width).isdecimal() and int(width) > 0:
        return int(width)
    raise ValueError(f"{what} has widths in bits as keys, such as 8, got '{width}'")


def at_power(table: Mapping[int | str, float], size: float, power: int) -> float:
    """A number that grows with width ** power, for `size`, which is such a power of a width.

    Between two widths of the table it is interpolated, linearly in the power; below and above all of them it is
    that of the nearest one, scaled. The table is one that `by_width` made.
    """
    points = [(float(int(width) ** power), number) for width, number in table.items()]
    for (low, below), (high, above) in pairwise(points):
        if low <= size <= high:
            return below + (above - below) * (size - low) / (high - low)
    nearest, number = points[0] if size < points[0][0] else points[-1]
    return number * size / nearest
