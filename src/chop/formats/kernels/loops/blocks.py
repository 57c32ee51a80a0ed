"""Loops over blocks: the largest magnitude of a block, its scale, and its elements.

Functions of several paths take addresses, not arrays or slices: Numba counts references to those, by functions that
are not there when a loop is loaded, and whether LLVM removes these calls depends on the processor.
"""

import numpy as np
from llvmlite import ir
from numba import carray, njit, types
from numba.core import cgutils
from numba.extending import intrinsic

from chop.formats.kernels.loops.elements import (
    ELEMENTS,
    EXPONENT,
    MAGNITUDE,
    bits,
    clamp,
    element_parameters,
    number,
)
from chop.formats.kernels.loops.parameters import NUM_PARAMETERS, ScaleParameters

LARGEST = np.int32(0x7F7FFFFF)
SCALES_AT_ONCE = 64
CACHE_LINE = 64
"""Bytes."""


def stack_memory(size):
    """Return a function that returns the address of `size` float32 numbers on the stack of its caller."""

    @intrinsic
    def address(context):
        def generate(context, builder, signature, arguments):
            memory = cgutils.alloca_once(builder, ir.FloatType(), size=size)
            memory.align = CACHE_LINE  # a vector that crosses cache lines takes longer to load and store
            return memory

        return types.CPointer(types.float32)(), generate

    return address


@intrinsic
def address_of(context, source, start):
    """Return the address of the float32 number `start` after `source`."""

    def generate(context, builder, signature, arguments):
        return builder.gep(arguments[0], [arguments[1]])

    return source(source, types.int64), generate


@njit
def finite_pattern(x):
    """Return the bits of |x|, as an integer that grows with it; NaN counts as 0."""
    pattern = np.int32(bits(x) & MAGNITUDE)
    return np.int32(0) if pattern > EXPONENT else pattern


@njit
def power_below(x):
    """Return the largest power of two up to a number that is not negative; 0 for 0."""
    lift = np.float32(16777216.0)  # subnormal numbers have no exponent
    small = x if x < np.float32(1.0) else np.float32(1.0)
    lifted = number(bits(small * lift) & EXPONENT) * (np.float32(1.0) / lift)
    power = number(bits(x) & EXPONENT)
    return lifted if power < lifted else power


@njit
def scale_parameters(p):
    """Return the parameters of a scale by their names."""
    return ScaleParameters(p[6], p[7], p[8], p[9], p[10], p[11], p[12], p[13], p[14], p[15])


@njit
def power_scale(pattern, p):
    """Return the scale that `PowerScale` in `chop.formats.parts.scales` describes."""
    largest = number(LARGEST if pattern == EXPONENT else pattern)
    power = power_below(largest)
    bound = power * p.above
    scale = power * p.factor
    if largest > bound or (p.inclusive > np.float32(0.0) and largest == bound):
        scale = scale * np.float32(2.0)
    return clamp(scale, p.low, p.high) * p.unit


@njit
def real_scale(pattern, p):
    """Return the scale that maps the maximum to `top`, from `low` to `high`."""
    largest = number(LARGEST if pattern == EXPONENT else pattern)
    return clamp(largest / p.top, p.low, p.high)


@njit
def tensor_scale(pattern, p):
    """Return an E4M3 number times the scale of the tensor: the maximum divided by `top` and by that scale."""
    largest = number(LARGEST if pattern == EXPONENT else pattern)
    scale = clamp(p.tensor_largest / p.tensor_top, p.low, p.high)
    ratio = clamp(largest / p.top / scale, np.float32(-448.0), np.float32(448.0))
    power = number(bits(ratio) & EXPONENT)
    power = np.float32(0.015625) if power < np.float32(0.015625) else power
    magic = power * np.float32(1572864.0)
    return ((ratio + magic) - magic) * scale


@njit
def power_above(pattern, p):
    """Return the smallest power of two, up to `limit`, that is at least `real_scale`."""
    real = real_scale(pattern, p)
    power = number(bits(real) & EXPONENT)
    power = power * np.float32(2.0) if real > power else power
    return p.limit if power > p.limit else power


SCALES = {"power": power_scale, "power_above": power_above, "real": real_scale, "tensor": tensor_scale}


def block_function(scale_name, element_name):
    """Return a function that rounds one block with a given scale: a row of two-dimensional arrays."""
    rounded, is_power = ELEMENTS[element_name], scale_name.startswith("power")

    @njit(inline="always")  # faster than what LLVM inlines
    def block(x, y, row, scale, element):
        if is_power:  # multiplied by the inverse, in two steps if the inverse is beyond float32
            lift = np.float32(1.8446744e19) if scale < np.float32(1e-30) else np.float32(1.0)
            inverse = np.float32(1.0) / (scale * lift)
            for i in range(x.shape[1]):
                y[row, i] = rounded(x[row, i] * lift * inverse, element) * scale
        else:
            divisor = np.float32(1.4e-45) if scale < np.float32(1.4e-45) else scale
            for i in range(x.shape[1]):
                y[row, i] = rounded(x[row, i] / divisor, element) * scale

    return block


@njit(inline="always")
def largest_pattern(x, row):
    """Return the bits of the largest magnitude of a row."""
    largest = np.int32(0)
    for i in range(x.shape[1]):
        pattern = finite_pattern(x[row, i])
        largest = pattern if pattern > largest else largest
    return largest


def rows(scale_name, element_name, size_name):
    """Return a loop over blocks along the last dimension, which is contiguous and a multiple of `size`.

    `size_name` is the size if the loop is for one size, else "any".
    """
    if size_name == "any":
        return any_rows(scale_name, element_name)
    return short_rows(scale_name, element_name, int(size_name))


def any_rows(scale_name, element_name):
    """Return a loop over blocks of any size."""
    scale_of, block = SCALES[scale_name], block_function(scale_name, element_name)

    def loop(source, target, outer, n, inner, size, parameters):
        count, p = outer * (n // size), carray(parameters, NUM_PARAMETERS)
        x, y = carray(source, (count, size)), carray(target, (count, size))
        element, scaling = element_parameters(p), scale_parameters(p)
        for row in range(count):
            block(x, y, row, scale_of(largest_pattern(x, row), scaling), element)

    return loop


def short_rows(scale_name, element_name, num):
    """Return a loop over blocks of `num` elements, a constant, so that the code of a block has no loops.

    The scales of many blocks are computed together. A block is written after all of it was read, through memory
    that nothing else can refer to: else the code would check whether source and target overlap.
    """
    scale_of, rounded, is_power = SCALES[scale_name], ELEMENTS[element_name], scale_name.startswith("power")
    new_scales, new_block = stack_memory(SCALES_AT_ONCE), stack_memory(num)

    @njit(inline="always")
    def short_block(x, y, row, kept, scale, element):
        divisor = np.float32(1.4e-45) if scale < np.float32(1.4e-45) else scale
        inverse = np.float32(1.0) / scale
        for i in range(num):
            quotient = x[row, i] * inverse if is_power else x[row, i] / divisor
            kept[i] = rounded(quotient, element) * scale
        for i in range(num):
            y[row, i] = kept[i]

    block = block_function(scale_name, element_name)

    def loop(source, target, outer, n, inner, size, parameters):
        count, p = outer * (n // num), carray(parameters, NUM_PARAMETERS)
        x, y = carray(source, (count, num)), carray(target, (count, num))
        scales, kept = carray(new_scales(), SCALES_AT_ONCE), carray(new_block(), num)
        element, scaling = element_parameters(p), scale_parameters(p)
        for start in range(0, count, SCALES_AT_ONCE):
            together = min(SCALES_AT_ONCE, count - start)
            for k in range(together):
                scales[k] = number(largest_pattern(x, start + k))
            for k in range(together):
                scales[k] = scale_of(bits(scales[k]), scaling)
            for k in range(together):
                if is_power and scales[k] < np.float32(1e-30):
                    block(x, y, start + k, scales[k], element)
                else:
                    short_block(x, y, start + k, kept, scales[k], element)

    return loop


def ragged_rows(scale_name, element_name):
    """Return a loop over blocks along the last dimension, of which the last one may be shorter."""
    scale_of, block = SCALES[scale_name], block_function(scale_name, element_name)

    def loop(source, target, outer, n, inner, size, parameters):
        x, y, p = carray(source, (outer, n)), carray(target, (outer, n)), carray(parameters, NUM_PARAMETERS)
        element, scaling = element_parameters(p), scale_parameters(p)
        for row in range(outer):
            for start in range(0, n, size):
                stop = min(start + size, n)
                part = x[row : row + 1, start:stop]
                block(part, y[row : row + 1, start:stop], 0, scale_of(largest_pattern(part, 0), scaling), element)

    return loop


def columns(scale_name, element_name):
    """Return a loop over blocks along a dimension with `inner` elements behind it, in C order.

    The first row of each block of `target` holds the maxima and then the scales, until it is written last.
    """
    scale_of, rounded = SCALES[scale_name], ELEMENTS[element_name]

    @njit
    def maxima(x, first):
        for j in range(len(x)):
            pattern, largest = finite_pattern(x[j]), bits(first[j])
            first[j] = number(pattern if pattern > largest else largest)

    @njit
    def number_of(x, scale, element):
        divisor = np.float32(1.4e-45) if scale < np.float32(1.4e-45) else scale
        return rounded(x / divisor, element) * scale

    @njit
    def row(x, y, scales, element):
        for j in range(len(x)):
            y[j] = number_of(x[j], scales[j], element)

    @njit
    def first_row(x, scales, element):
        for j in range(len(x)):
            scales[j] = number_of(x[j], scales[j], element)

    def loop(source, target, outer, n, inner, size, parameters):
        x, y = carray(source, (outer, n, inner)), carray(target, (outer, n, inner))
        p = carray(parameters, NUM_PARAMETERS)
        element, scaling = element_parameters(p), scale_parameters(p)
        for o in range(outer):
            for start in range(0, n, size):
                first = y[o, start]
                for j in range(inner):
                    first[j] = np.float32(0.0)
                for k in range(start, min(start + size, n)):
                    maxima(x[o, k], first)
                for j in range(inner):
                    first[j] = scale_of(bits(first[j]), scaling)
                for k in range(start + 1, min(start + size, n)):
                    row(x[o, k], y[o, k], first, element)
                first_row(x[o, start], first, element)

    return loop


@njit
def largest_magnitude(source, n):
    """Return the largest magnitude; NaN counts as 0, an infinity as the largest float32."""
    x, largest = carray(source, n), np.int32(0)
    for i in range(n):
        pattern = np.int32(bits(x[i]) & MAGNITUDE)
        largest = pattern if pattern > largest else largest
    if largest > EXPONENT:  # there is a NaN; looking for it takes longer than the maximum
        largest = np.int32(0)
        for i in range(n):
            pattern = finite_pattern(x[i])
            largest = pattern if pattern > largest else largest
    return number(LARGEST if largest == EXPONENT else largest)


def maximum(_):
    """Return a loop that stores the largest magnitude of all elements at `target`."""

    def loop(source, target, outer, n, inner, size, parameters):
        carray(target, 1)[0] = largest_magnitude(source, n)

    return loop
