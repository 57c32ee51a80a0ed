"""Loops over elements: fixed point, grids of small floats, and numbers with one given scale."""

import numpy as np
from numba import carray

from chop.formats.kernels.loops.blocks import SCALES, scale_parameters
from chop.formats.kernels.loops.elements import ELEMENTS, ROUNDINGS, bits, clamp, element_parameters
from chop.formats.kernels.loops.parameters import NUM_ELEMENT_PARAMETERS, NUM_PARAMETERS


def fixed_point(rounding):
    """Return a loop that multiplies, rounds to integers from low to high, and multiplies again."""
    rounded = ROUNDINGS[rounding]

    def loop(source, target, outer, n, inner, size, parameters):
        x, y, p = carray(source, n), carray(target, n), carray(parameters, 4)
        factor, low, high, unit = p[0], p[1], p[2], p[3]
        for i in range(n):
            y[i] = clamp(rounded(x[i] * factor), low, high) * unit

    return loop


def fixed_point_columns(rounding):
    """Return a loop over rows of n numbers, like `fixed_point` with four parameters for each place in a row."""
    rounded = ROUNDINGS[rounding]

    def loop(source, target, outer, n, inner, size, parameters):
        x, y, p = carray(source, (outer, n)), carray(target, (outer, n)), carray(parameters, (4, n))
        factor, low, high, unit = p[0], p[1], p[2], p[3]
        for row in range(outer):
            for i in range(n):
                y[row, i] = clamp(rounded(x[row, i] * factor[i]), low[i], high[i]) * unit[i]

    return loop


def on_grid(element_name):
    """Return a loop that rounds each number to a grid."""
    rounded = ELEMENTS[element_name]

    def loop(source, target, outer, n, inner, size, parameters):
        x, y = carray(source, n), carray(target, n)
        element = element_parameters(carray(parameters, NUM_ELEMENT_PARAMETERS))
        for i in range(n):
            y[i] = rounded(x[i], element)

    return loop


def scaled(scale_name, element_name):
    """Return a loop that rounds all numbers with one scale; it follows from the last parameter, their maximum."""
    scale_of, rounded = SCALES[scale_name], ELEMENTS[element_name]

    def loop(source, target, outer, n, inner, size, parameters):
        x, y, p = carray(source, n), carray(target, n), carray(parameters, NUM_PARAMETERS + 1)
        element = element_parameters(p)
        scale = scale_of(bits(p[NUM_PARAMETERS]), scale_parameters(p))
        divisor = np.float32(1.4e-45) if scale < np.float32(1.4e-45) else scale
        for i in range(n):
            y[i] = rounded(x[i] / divisor, element) * scale

    return loop
