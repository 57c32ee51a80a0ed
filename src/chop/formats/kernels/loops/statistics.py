"""Loops for statistics of rows: smallest, largest, sum and squared deviations; counts of a histogram."""

import numpy as np
from numba import carray, njit

from chop.formats.kernels.loops.elements import MAGNITUDE, bits, number

SLICE = 2048
"""Numbers that are read twice, the second time from the cache: for their mean, and for their deviations from it."""


@njit
def store_double(y, position, value):
    """Store a double in the memory of two float32 numbers."""
    pattern = np.float64(value).view(np.int64)
    y[position] = number(np.int32(pattern & np.int64(0xFFFFFFFF)))
    y[position + 1] = number(np.int32(pattern >> np.int64(32)))


@njit
def ends(x):
    """Return the smallest and the largest number; NaN is ignored."""
    low, high = np.float32(np.inf), np.float32(-np.inf)
    for i in range(len(x)):
        low = x[i] if x[i] < low else low
        high = x[i] if x[i] > high else high
    return low, high


@njit(fastmath={"reassoc"})
def total(x):
    """Return the sum in double precision; four sums at once, because each addition waits for the one before."""
    quarter = len(x) // 4
    a, b, c, d = np.float64(0.0), np.float64(0.0), np.float64(0.0), np.float64(0.0)
    for i in range(quarter):
        a += np.float64(x[i])
        b += np.float64(x[quarter + i])
        c += np.float64(x[2 * quarter + i])
        d += np.float64(x[3 * quarter + i])
    for i in range(4 * quarter, len(x)):
        a += np.float64(x[i])
    return a + b + c + d


@njit(fastmath={"reassoc"})
def deviations(x, mean):
    """Return the sum of squared differences from the mean in double precision."""
    quarter = len(x) // 4
    a, b, c, d = np.float64(0.0), np.float64(0.0), np.float64(0.0), np.float64(0.0)
    for i in range(quarter):
        a += (np.float64(x[i]) - mean) ** 2
        b += (np.float64(x[quarter + i]) - mean) ** 2
        c += (np.float64(x[2 * quarter + i]) - mean) ** 2
        d += (np.float64(x[3 * quarter + i]) - mean) ** 2
    for i in range(4 * quarter, len(x)):
        a += (np.float64(x[i]) - mean) ** 2
    return a + b + c + d


def moments(_):
    """Return a loop over rows of n numbers; four doubles per row: smallest, largest, sum, squared deviations."""

    def loop(source, target, outer, n, inner, size, parameters):
        x, y = carray(source, (outer, n)), carray(target, outer * 8)
        for row in range(outer):
            low, high = np.float32(np.inf), np.float32(-np.inf)
            count, sum_, squares = np.int64(0), np.float64(0.0), np.float64(0.0)
            for start in range(0, n, SLICE):
                part = x[row, start : min(start + SLICE, n)]
                part_low, part_high = ends(part)
                low, high = min(low, part_low), max(high, part_high)
                part_sum = total(part)
                squares += deviations(part, part_sum / len(part))
                if count > 0:  # Chan, Golub and LeVeque 1979
                    between = part_sum / len(part) - sum_ / count
                    squares += between * between * (np.float64(count) * len(part) / (count + len(part)))
                count += len(part)
                sum_ += part_sum
            store_double(y, 8 * row, low)
            store_double(y, 8 * row + 2, high)
            store_double(y, 8 * row + 4, sum_)
            store_double(y, 8 * row + 6, squares)

    return loop


def code_counts(_):
    """Return a loop that counts sign, exponent and top 6 mantissa bits of rows of n numbers.

    The target has 2**15 integers per row, initially 0, and one at the end that becomes 1 if there are subnormals.
    """

    def loop(source, target, outer, n, inner, size, parameters):
        x, y = carray(source, (outer, n)), carray(target, outer * 32768 + 1)
        has_subnormal = np.int32(0)
        for row in range(outer):
            for i in range(n):
                pattern = bits(x[row, i])
                magnitude = np.int32(pattern & MAGNITUDE)
                is_subnormal = magnitude != np.int32(0) and magnitude < np.int32(0x00800000)
                has_subnormal |= np.int32(1) if is_subnormal else np.int32(0)
                code = row * 32768 + ((pattern >> 17) & np.int32(0x7FFF))
                y[code] = number(np.int32(bits(y[code]) + np.int32(1)))
        y[outer * 32768] = number(np.int32(has_subnormal))

    return loop
