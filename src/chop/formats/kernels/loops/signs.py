"""Loops for one and two bits: sums of magnitudes that are exact in any order, and signs times a scale."""

import numpy as np
from numba import carray, njit

from chop.formats.kernels.loops.blocks import LARGEST, address_of, largest_magnitude, power_below, stack_memory
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
def exact_sum(units, count):
    """Return the sum of integers; four sums at once, because each addition waits for the one before."""
    quarter = count // 4
    a, b, c, d = np.float64(0.0), np.float64(0.0), np.float64(0.0), np.float64(0.0)
    for i in range(quarter):
        a += np.float64(units[i])
        b += np.float64(units[quarter + i])
        c += np.float64(units[2 * quarter + i])
        d += np.float64(units[3 * quarter + i])
    for i in range(4 * quarter, count):
        a += np.float64(units[i])
    return a + b + c + d


def sum_function():
    """Return a function for the sum and the number of magnitudes above a limit, in units of 1 / factor.

    Both are integers below 2**53. A negative limit means all numbers.
    """
    new_units = stack_memory(UNITS_AT_ONCE)
    units_of_all, units_above, units_of_any = (
        units_function(True, False),
        units_function(True, True),
        units_function(False, True),
    )

    @njit
    def sum_and_count(source, n, factor, limit):
        units = carray(new_units(), UNITS_AT_ONCE)
        for attempt in range(2):  # values that are not finite are looked for only if the sum is not
            total, count = np.float64(0.0), np.int64(0)
            for start in range(0, n, UNITS_AT_ONCE):
                part = carray(address_of(source, start), min(UNITS_AT_ONCE, n - start))
                if attempt == 1:
                    count += units_of_any(part, limit, factor, units)
                elif limit < np.float32(0.0):
                    count += units_of_all(part, limit, factor, units)
                else:
                    count += units_above(part, limit, factor, units)
                total += exact_sum(units, len(part))
            if total < np.inf:
                break
        return total, count

    return sum_and_count


def sum_above(_):
    """Return a loop over the magnitudes above p[1], in units of 1 / p[0]: their sum and their number.

    Both are stored as sums of float32 numbers: three for the sum, two for the number.
    """
    sum_and_count = sum_function()

    def loop(source, target, outer, n, inner, size, parameters):
        y, p = carray(target, 5), carray(parameters, 2)
        total, count = sum_and_count(source, n, p[0], p[1])
        high = np.float32(total)
        middle = np.float32(total - np.float64(high))
        y[0], y[1], y[2] = high, middle, np.float32(total - np.float64(high) - np.float64(middle))
        y[3] = np.float32(count >> np.int64(24))
        y[4] = np.float32(count & np.int64(0xFFFFFF))

    return loop


def signs_function(has_zero):
    """Return a function that stores -scale or scale; with `has_zero`, 0 for magnitudes up to a limit."""

    @njit
    def store_signs(x, y, limit, scale):
        for i in range(len(x)):
            value = x[i]
            magnitude = np.int32(bits(value) & MAGNITUDE)
            sign = np.int32(bits(value + np.float32(0.0)) & NEGATIVE)
            is_kept = number(min(magnitude, LARGEST)) > limit or not has_zero  # infinities count as the largest
            found = number(bits(scale if is_kept else np.float32(0.0)) | sign)
            y[i] = value if magnitude > EXPONENT else found

    return store_signs


def signs(name):
    """Return a loop that stores -p[1] or p[1]; if there are three values, 0 for magnitudes up to p[0]."""
    store_signs = signs_function(name == "ternary")

    def loop(source, target, outer, n, inner, size, parameters):
        x, y, p = carray(source, n), carray(target, n), carray(parameters, 2)
        store_signs(x, y, p[0], p[1])

    return loop


def mean_signs(name):
    """Return a loop that finds maximum, limit and scale, and then stores signs: all of the above in one call.

    The factor of the sums is p[0] divided by the power of two below the maximum. The limit is the mean times
    p[1] + p[2] + p[3], which is a double; the scale is the mean of what is above the limit, or 1 if p[4] = 0.
    Afterwards, p[5] = 1 if the factor is a float32 number; otherwise, nothing is stored.
    """
    has_zero = name == "ternary"
    sum_and_count, store_signs = sum_function(), signs_function(has_zero)

    @njit
    def mean_above(source, n, factor, limit):
        total, count = sum_and_count(source, n, factor, limit)
        return total / np.float64(factor) / np.float64(max(count, np.int64(1)))

    def loop(source, target, outer, n, inner, size, parameters):
        x, y, p = carray(source, n), carray(target, n), carray(parameters, 6)
        largest = largest_magnitude(source, n)
        factor = p[0] / power_below(largest if largest > np.float32(0.0) else np.float32(1.0))
        if not factor < np.inf:
            return
        mean = mean_above(source, n, factor, np.float32(-1.0))
        limit, scale = np.float32(0.0), np.float32(1.0)
        if has_zero:
            limit = np.float32(mean * (np.float64(p[1]) + np.float64(p[2]) + np.float64(p[3])))
        if p[4] > np.float32(0.0):
            scale = np.float32(mean_above(source, n, factor, limit) if has_zero else mean)
        store_signs(x, y, limit, scale)
        p[5] = np.float32(1.0)

    return loop
