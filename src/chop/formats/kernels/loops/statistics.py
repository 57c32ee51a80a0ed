"""Loops over rows: smallest, largest, sum, squared deviations; counts of a histogram; scores of a classifier."""

import numpy as np
from numba import carray, njit

from chop.formats.kernels.loops.elements import MAGNITUDE, bits, clamp, number

LARGEST = np.finfo(np.float32).max
SLICE = 2048
"""Numbers that are read twice, the second time from the cache: for their mean, and for their deviations from it."""


@njit
def store_double(y, position, value):
    """Store a double; each takes the memory of two float32 numbers."""
    pattern = np.float64(value).view(np.int64)
    y[2 * position] = number(np.int32(pattern & np.int64(0xFFFFFFFF)))
    y[2 * position + 1] = number(np.int32(pattern >> np.int64(32)))


@njit
def ordered(pattern):
    """Return integers in the order of the numbers with these bits, and vice versa; integers are compared faster."""
    return np.int32(pattern ^ ((pattern >> 31) & MAGNITUDE))


@njit(fastmath={"reassoc"})
def ends_and_mean(x, share):
    """Return the ends as ordered integers, and the mean to the precision of float32; `share` is 1 / len(x)."""
    low, high, mean = np.int32(0x7FFFFFFF), np.int32(-0x80000000), np.float32(0.0)
    for i in range(len(x)):
        key = ordered(bits(x[i]))
        low, high = min(low, key), max(high, key)
        mean += x[i] * share  # the sum itself could overflow
    return low, high, mean


@njit(fastmath={"reassoc"})
def deviations(x, mean):
    """Return the sums of the differences from a mean and of their squares in double precision.

    Two sums of each at once, because each addition waits for the one before.
    """
    half = len(x) // 2
    a, b, aa, bb = np.float64(0.0), np.float64(0.0), np.float64(0.0), np.float64(0.0)
    for i in range(half):
        first, second = np.float64(x[i]) - mean, np.float64(x[half + i]) - mean
        a, b = a + first, b + second
        aa, bb = aa + first * first, bb + second * second
    for i in range(2 * half, len(x)):
        last = np.float64(x[i]) - mean
        a, aa = a + last, aa + last * last
    return a + b, aa + bb


def moments(_):
    """Return a loop over rows of n numbers; four doubles per row: smallest, largest, sum, squared deviations.

    The target has one row for each of the four, with `inner` doubles.
    """

    def loop(source, target, outer, n, inner, size, parameters):
        x, y = carray(source, (outer, n)), carray(target, inner * 8)
        for row in range(outer):
            low, high = np.int32(0x7FFFFFFF), np.int32(-0x80000000)
            count, sum_, squares = np.int64(0), np.float64(0.0), np.float64(0.0)
            for start in range(0, n, SLICE):
                part = x[row, start : min(start + SLICE, n)]
                part_low, part_high, near = ends_and_mean(part, np.float32(1.0 / len(part)))
                low, high = min(low, part_low), max(high, part_high)
                near = number(ordered(part_low)) if part_low == part_high else near  # variance 0
                rest, part_squares = deviations(part, np.float64(near))
                part_sum = np.float64(near) * len(part) + rest
                squares += max(part_squares - rest * (rest / len(part)), 0.0)
                if count > 0:  # Chan, Golub and LeVeque 1979
                    between = part_sum / len(part) - sum_ / count
                    squares += between * between * (np.float64(count) * len(part) / (count + len(part)))
                count += len(part)
                sum_ += part_sum
            store_double(y, row, number(ordered(low)) + np.float32(0.0))  # 0 instead of -0
            store_double(y, inner + row, number(ordered(high)) + np.float32(0.0))
            store_double(y, 2 * inner + row, sum_)
            store_double(y, 3 * inner + row, squares)

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


def scores(_):
    """Return a loop over rows of n logits, for loss and accuracy; the parameters are labels of 64 bits.

    The target has n + 2 rows of `outer` numbers and one integer: the logits of each class minus the shift of their
    row; the shifts, which are the largest logits, but finite; the logits of the labels; and the number of rows
    whose first largest logit is that of their label, or -1 if a label is not a class or a logit is NaN.
    """

    def loop(source, target, outer, n, inner, size, parameters):
        x, y = carray(source, (outer, n)), carray(target, (n + 2) * outer + 1)
        halves = carray(parameters, 2 * outer)
        num_correct, is_wrong = np.int32(0), np.int32(0)
        for row in range(outer):
            low, high = bits(halves[2 * row]), bits(halves[2 * row + 1])
            label = low if high == np.int32(0) and low >= np.int32(0) and low < n else np.int32(-1)
            largest, first = x[row, 0], np.int32(0)
            is_wrong |= np.int32(label < np.int32(0)) | np.int32(largest != largest)
            for i in range(1, n):
                value = x[row, i]
                is_larger = value > largest
                first = np.int32(i) if is_larger else first
                largest = value if is_larger else largest
                is_wrong |= np.int32(value != value)
            shift = clamp(largest, -LARGEST, LARGEST)
            for i in range(n):
                y[i * outer + row] = x[row, i] - shift
            y[n * outer + row] = shift
            y[(n + 1) * outer + row] = x[row, max(label, np.int32(0))]
            num_correct += np.int32(label == first)
        y[(n + 2) * outer] = number(np.int32(-1) if is_wrong else num_correct)

    return loop
