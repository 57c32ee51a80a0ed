"""Loops for one and two bits: sums of magnitudes that are exact in any order, and signs times a scale."""

import numpy as np
from numba import carray, njit

from chop.formats.kernels.loops.blocks import LARGEST, stack_memory
from chop.formats.kernels.loops.elements import EXPONENT, MAGNITUDE, bits, number

NEGATIVE = np.int32(-0x80000000)
UNITS_AT_ONCE = 1024


@njit
def units_above(x, limit, factor, units):
    """Store the magnitudes above the limit times the factor, as integers, and 0 for others; return their number."""
    count, largest = np.int32(0), number(LARGEST)
    for i in range(len(x)):
        magnitude = number(bits(x[i]) & MAGNITUDE)
        magnitude = largest if magnitude > largest else magnitude
        is_above = magnitude > limit  # NaN is not
        units[i] = np.rint((magnitude if is_above else np.float32(0.0)) * factor)
        count = np.int32(count + (np.int32(1) if is_above else np.int32(0)))
    return count


@njit(fastmath={"reassoc"})  # the order of exact sums does not matter
def exact_sum(units):
    """Return the sum of integers; four sums at once, because each addition waits for the one before."""
    quarter = len(units) // 4
    a, b, c, d = np.float64(0.0), np.float64(0.0), np.float64(0.0), np.float64(0.0)
    for i in range(quarter):
        a += np.float64(units[i])
        b += np.float64(units[quarter + i])
        c += np.float64(units[2 * quarter + i])
        d += np.float64(units[3 * quarter + i])
    for i in range(4 * quarter, len(units)):
        a += np.float64(units[i])
    return a + b + c + d


def sum_above(_):
    """Return a loop over the magnitudes above p[1], in units of 1 / p[0]: their sum and their number.

    Both are integers below 2**53, stored as sums of float32 numbers: three for the sum, two for the number.
    """
    new_units = stack_memory(UNITS_AT_ONCE)

    def loop(source, target, outer, n, inner, size, parameters):
        x, y, p = carray(source, n), carray(target, 5), carray(parameters, 2)
        units = carray(new_units(), UNITS_AT_ONCE)
        total, count = np.float64(0.0), np.int64(0)
        for start in range(0, n, UNITS_AT_ONCE):
            together = min(UNITS_AT_ONCE, n - start)
            count += units_above(x[start : start + together], p[1], p[0], units)
            total += exact_sum(units[:together])
        high = np.float32(total)
        middle = np.float32(total - np.float64(high))
        y[0], y[1], y[2] = high, middle, np.float32(total - np.float64(high) - np.float64(middle))
        y[3] = np.float32(count >> np.int64(24))
        y[4] = np.float32(count & np.int64(0xFFFFFF))

    return loop


def signs(name):
    """Return a loop that stores -p[1] or p[1]; if there are three values, 0 for magnitudes up to p[0]."""
    has_zero = name == "ternary"

    def loop(source, target, outer, n, inner, size, parameters):
        x, y, p = carray(source, n), carray(target, n), carray(parameters, 2)
        limit, scale = p[0], p[1]
        for i in range(n):
            value = x[i]
            magnitude = np.int32(bits(value) & MAGNITUDE)
            sign = np.int32(bits(value + np.float32(0.0)) & NEGATIVE)
            is_kept = number(min(magnitude, LARGEST)) > limit or not has_zero  # infinities count as the largest
            found = number(bits(scale if is_kept else np.float32(0.0)) | sign)
            y[i] = value if magnitude > EXPONENT else found

    return loop
