"""Loops for one and two bits: sums of magnitudes that are exact in any order, and signs times a scale."""

import numpy as np
from numba import carray, njit

from chop.formats.kernels.loops.blocks import LARGEST, stack_memory
from chop.formats.kernels.loops.elements import EXPONENT, MAGNITUDE, bits, number

NEGATIVE = np.int32(-0x80000000)
UNITS_AT_ONCE = 1024


def units_function(is_finite, has_limit):
    """Return a function that stores magnitudes times a factor, as integers, and returns their number.

    With a limit, magnitudes up to it are stored as 0 and not counted. If the values are finite, infinities do not
    become the largest number.
    """

    @njit
    def units_above(x, limit, factor, units):
        count, largest = np.int32(0), number(LARGEST)
        for i in range(len(x)):
            magnitude = number(bits(x[i]) & MAGNITUDE)
            if not is_finite:
                magnitude = largest if magnitude > largest else magnitude
            if has_limit:
                is_above = magnitude > limit  # NaN is not
                magnitude = magnitude if is_above else np.float32(0.0)
                count = np.int32(count + (np.int32(1) if is_above else np.int32(0)))
            units[i] = np.rint(magnitude * factor)
        return count if has_limit else len(x)

    return units_above


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

    Both are integers below 2**53, stored as sums of float32 numbers: three for the sum, two for the number. A
    negative limit means all numbers.
    """
    new_units = stack_memory(UNITS_AT_ONCE)
    units_of_all, units_above, units_of_any = (
        units_function(True, False),
        units_function(True, True),
        units_function(False, True),
    )

    def loop(source, target, outer, n, inner, size, parameters):
        x, y, p = carray(source, n), carray(target, 5), carray(parameters, 2)
        factor, limit = p[0], p[1]
        units = carray(new_units(), UNITS_AT_ONCE)
        for attempt in range(2):  # values that are not finite are looked for only if the sum is not
            total, count = np.float64(0.0), np.int64(0)
            for start in range(0, n, UNITS_AT_ONCE):
                part = x[start : min(start + UNITS_AT_ONCE, n)]
                if attempt == 1:
                    count += units_of_any(part, limit, factor, units)
                elif limit < np.float32(0.0):
                    count += units_of_all(part, limit, factor, units)
                else:
                    count += units_above(part, limit, factor, units)
                total += exact_sum(units[: len(part)])
            if total < np.inf:
                break
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
