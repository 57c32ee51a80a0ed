"""Users' tables of numbers by width in bits."""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import pairwise


def by_width(table: Mapping[int | str, float], what: str) -> dict[int, float]:
    """Return the table with integer keys, narrowest first; keys in TOML are strings."""
    found = {_width(width, what): number for width, number in table.items()}
    if not found:
        raise ValueError(f"{what} must list at least one width, such as {{8 = 1e12}}")
    for width, number in found.items():
        if not (number > 0 and math.isfinite(number)):
            raise ValueError(f"{what} must be positive numbers, got {number} for {width} bits")
    return dict(sorted(found.items()))


def _width(width: int | str, what: str) -> int:
    if str(width).isdecimal() and int(width) > 0:
        return int(width)
    raise ValueError(f"{what} must have widths in bits as keys, such as 8, got '{width}'")


def at_power(table: Mapping[int | str, float], size: float, power: int) -> float:
    """Return the number at `size = width ** power`, for a quantity that is proportional to `size`.

    Between two widths of the table it is interpolated linearly in `size`. Outside of them the nearest entry is
    scaled: with `{8: 0.2}` and power 2, a width of 4 (size 16) gives 0.2 * 16 / 64 = 0.05. `table` is a result of
    `by_width`.
    """
    points = [(float(int(width) ** power), number) for width, number in table.items()]
    for (low, below), (high, above) in pairwise(points):
        if low <= size <= high:
            return below + (above - below) * (size - low) / (high - low)
    nearest, number = points[0] if size < points[0][0] else points[-1]
    return number * size / nearest
