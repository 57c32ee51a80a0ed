"""Loops for one and two bits: sums of magnitudes that are exact in any order, and signs times a scale."""

import numpy as np
from numba import carray

from chop.formats.kernels.loops.blocks import LARGEST
from chop.formats.kernels.loops.elements import EXPONENT, MAGNITUDE, bits, number

NEGATIVE = np.int32(-0x80000000)


def sum_above(_):
    """Return a loop over the magnitudes above p[1], in units of 1 / p[0]: their sum and their number.

    Both are integers below 2**53, stored as sums of float32 numbers: three for the sum, two for the number.
    """

    def loop(source, target, outer, n, inner, size, parameters):
        x, y, p = carray(source, n), carray(target, 5), carray(parameters, 2)
        factor, limit = p[0], p[1]
        total, count = np.float64(0.0), np.int64(0)
        for i in range(n):
            pattern = np.int32(bits(x[i]) & MAGNITUDE)
            magnitude = number(LARGEST if pattern == EXPONENT else pattern)
            is_above = magnitude > limit  # NaN is not
            total += np.float64(np.rint(magnitude * factor) if is_above else np.float32(0.0))
            count += np.int64(1) if is_above else np.int64(0)
        high = np.float32(total)
        middle = np.float32(total - np.float64(high))
        y[0], y[1], y[2] = high, middle, np.float32(total - np.float64(high) - np.float64(middle))
        y[3] = np.float32(count >> np.int64(24))
        y[4] = np.float32(count & np.int64(0xFFFFFF))

    loop.fastmath = {"reassoc"}  # the order of exact sums does not matter
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
            is_kept = number(magnitude) > limit or not has_zero
            found = number(bits(scale if is_kept else np.float32(0.0)) | sign)
            y[i] = value if magnitude > EXPONENT else found

    return loop
