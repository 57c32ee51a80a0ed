"""Loops over blocks: the largest magnitude of a block, its scale, and its elements."""

import numpy as np
from numba import carray, njit

from chop.formats.kernels.loops.elements import ELEMENTS, EXPONENT, MAGNITUDE, bits, clamp, number

LARGEST = np.int32(0x7F7FFFFF)


@njit
def finite_pattern(x):
    """Return the bits of |x|, as an integer that grows with it; NaN counts as 0."""
    pattern = np.int32(bits(x) & MAGNITUDE)
    return np.int32(0) if pattern > EXPONENT else pattern


@njit
def power_scale(pattern, p):
    """Return the power of two below the maximum times p[0], clamped to p[3] and p[4], times p[5].

    It is doubled if the maximum is above p[1] times the power; with p[2] = 1 also if it is equal.
    """
    largest = number(LARGEST if pattern == EXPONENT else pattern)
    lift = np.float32(16777216.0)
    small = largest if largest < np.float32(1.0) else np.float32(1.0)
    lifted = number(bits(small * lift) & EXPONENT) * (np.float32(1.0) / lift)
    power = number(bits(largest) & EXPONENT)
    power = lifted if power < lifted else power
    bound = power * p[1]
    scale = power * p[0]
    if largest > bound or (p[2] > np.float32(0.0) and largest == bound):
        scale = scale * np.float32(2.0)
    return clamp(scale, p[3], p[4]) * p[5]


@njit
def real_scale(pattern, p):
    """Return the maximum divided by p[0], from p[3] to p[4]."""
    largest = number(LARGEST if pattern == EXPONENT else pattern)
    return clamp(largest / p[0], p[3], p[4])


@njit
def tensor_scale(pattern, p):
    """Return an E4M3 number times the scale of the tensor p[1]: the maximum divided by p[0] and by that scale."""
    largest = number(LARGEST if pattern == EXPONENT else pattern)
    ratio = clamp(largest / p[0] / p[1], np.float32(-448.0), np.float32(448.0))
    power = number(bits(ratio) & EXPONENT)
    power = np.float32(0.015625) if power < np.float32(0.015625) else power
    magic = power * np.float32(1572864.0)
    return ((ratio + magic) - magic) * p[1]


@njit
def power_above(pattern, p):
    """Return the smallest power of two, up to p[5], that is at least `real_scale`."""
    real = real_scale(pattern, p)
    power = number(bits(real) & EXPONENT)
    power = power * np.float32(2.0) if real > power else power
    return p[5] if power > p[5] else power


SCALES = {"power": power_scale, "power_above": power_above, "real": real_scale, "tensor": tensor_scale}


def block_function(scale_name, element):
    """Return a function that rounds one block: a row of two-dimensional arrays.

    A scale that is a power of two divides by a multiplication with its inverse, in two steps for tiny scales.
    """
    scale_of, rounded, is_power = SCALES[scale_name], ELEMENTS[element], scale_name.startswith("power")

    @njit(inline="always")  # faster than what LLVM inlines
    def block(x, y, row, p, a, b, c):
        largest = np.int32(0)
        for i in range(x.shape[1]):
            pattern = finite_pattern(x[row, i])
            largest = pattern if pattern > largest else largest
        scale = scale_of(largest, p)
        if is_power:
            lift = np.float32(1.8446744e19) if scale < np.float32(1e-30) else np.float32(1.0)
            inverse = np.float32(1.0) / (scale * lift)
            for i in range(x.shape[1]):
                y[row, i] = rounded(x[row, i] * lift * inverse, a, b, c) * scale
        else:
            divisor = np.float32(1.4e-45) if scale < np.float32(1.4e-45) else scale
            for i in range(x.shape[1]):
                y[row, i] = rounded(x[row, i] / divisor, a, b, c) * scale

    return block


def rows(scale_name, element):
    """Return a loop over blocks along the last dimension, which is contiguous and a multiple of `size`."""
    block = block_function(scale_name, element)

    def loop(source, target, outer, n, inner, size, parameters):
        count, p = outer * (n // size), carray(parameters, 9)
        x, y = carray(source, (count, size)), carray(target, (count, size))
        a, b, c = p[6], p[7], p[8]
        for row in range(count):
            block(x, y, row, p, a, b, c)

    return loop


def ragged_rows(scale_name, element):
    """Return a loop over blocks along the last dimension, of which the last one may be shorter."""
    block = block_function(scale_name, element)

    def loop(source, target, outer, n, inner, size, parameters):
        x, y, p = carray(source, (outer, n)), carray(target, (outer, n)), carray(parameters, 9)
        a, b, c = p[6], p[7], p[8]
        for row in range(outer):
            for start in range(0, n, size):
                stop = min(start + size, n)
                block(x[row : row + 1, start:stop], y[row : row + 1, start:stop], 0, p, a, b, c)

    return loop


def columns(scale_name, element):
    """Return a loop over blocks along a dimension with `inner` elements behind it, in C order.

    The first row of each block of `target` holds the maxima and then the scales, until it is written last.
    """
    scale_of, rounded = SCALES[scale_name], ELEMENTS[element]

    @njit
    def maxima(x, first):
        for j in range(len(x)):
            pattern, largest = finite_pattern(x[j]), bits(first[j])
            first[j] = number(pattern if pattern > largest else largest)

    @njit
    def row(x, y, scales, a, b, c):
        for j in range(len(x)):
            scale = scales[j]
            divisor = np.float32(1.4e-45) if scale < np.float32(1.4e-45) else scale
            y[j] = rounded(x[j] / divisor, a, b, c) * scale

    def loop(source, target, outer, n, inner, size, parameters):
        x, y = carray(source, (outer, n, inner)), carray(target, (outer, n, inner))
        p = carray(parameters, 9)
        for o in range(outer):
            for start in range(0, n, size):
                first = y[o, start]
                for j in range(inner):
                    first[j] = np.float32(0.0)
                for k in range(start, min(start + size, n)):
                    maxima(x[o, k], first)
                for j in range(inner):
                    first[j] = scale_of(bits(first[j]), p)
                for k in range(start + 1, min(start + size, n)):
                    row(x[o, k], y[o, k], first, p[6], p[7], p[8])
                row(x[o, start], first, first, p[6], p[7], p[8])

    return loop


def maximum(_):
    """Return a loop that stores the largest magnitude of all elements at `target`."""

    def loop(source, target, outer, n, inner, size, parameters):
        x, y = carray(source, n), carray(target, 1)
        largest = np.int32(0)
        for i in range(n):
            pattern = finite_pattern(x[i])
            largest = pattern if pattern > largest else largest
        y[0] = number(LARGEST if largest == EXPONENT else largest)

    return loop
