"""Rounding one float32 number, as the eager definitions in `chop.formats` do, bit for bit."""

import numpy as np
from numba import njit

from chop.formats.kernels.loops.parameters import ElementParameters

EXPONENT = np.int32(0x7F800000)
MAGNITUDE = np.int32(0x7FFFFFFF)


@njit
def bits(x):
    """Return the bits of a float32 as an integer."""
    return np.float32(x).view(np.int32)


@njit
def number(pattern):
    """Return the float32 with these bits."""
    return np.int32(pattern).view(np.float32)


@njit
def with_sign_of(magnitude, x):
    """Return a number that is not negative, or has the sign of x, with the sign of x."""
    return number(bits(magnitude) | (bits(x) & np.int32(-0x80000000)))


@njit
def clamp(x, low, high):
    """Return x, at least low and at most high; NaN stays NaN."""
    x = low if x < low else x
    return high if x > high else x


@njit
def nearest_even(x):
    """Round to the nearest integer, ties to even."""
    return np.rint(x)


@njit
def nearest_away(x):
    """Round to the nearest integer, ties away from zero."""
    whole = np.trunc(x)
    share = x - whole  # exact
    return whole + with_sign_of(np.float32(1.0) if abs(share) >= np.float32(0.5) else np.float32(0.0), x)


@njit
def floor(x):
    """Round down to an integer."""
    return np.floor(x)


@njit
def towards_zero(x):
    """Round towards zero to an integer."""
    return np.trunc(x)


ROUNDINGS = {
    "nearest_even": nearest_even,
    "nearest_away": nearest_away,
    "floor": floor,
    "towards_zero": towards_zero,
}


@njit
def element_parameters(p):
    """Return the parameters of an element by their names."""
    return ElementParameters(p[0], p[1], p[2], p[3], p[4], p[5])


def integer_element(rounding):
    """Return a function that rounds to integers from low to high."""
    rounded = ROUNDINGS[rounding]

    @njit
    def element(x, p):
        return clamp(rounded(x), p.low, p.high)

    return element


@njit
def grid_by_sum(x, p):
    """Round to a grid: adding a number whose last bit is worth one step rounds x, with ties to even."""
    x = clamp(x, -p.high, p.high)
    power = number(bits(x) & EXPONENT)
    power = p.smallest if power < p.smallest else power
    magic = power * p.magic
    return with_sign_of((x + magic) - magic, x)


def grid_by_bits(dropped):
    """Return a function that rounds to a grid with the exponents of float32, with ties to even.

    It drops the last bits of the mantissa; their number is a constant, because Numba shifts by others in 64 bits.
    """
    below_half, kept = np.int32((1 << (dropped - 1)) - 1), np.int32(-(1 << dropped))

    @njit
    def element(x, p):
        x = clamp(x, -p.high, p.high)
        pattern = bits(x)
        last = np.int32((pattern >> dropped) & np.int32(1))
        rounded = np.int32(pattern + below_half + last) & kept
        return x if (pattern & MAGNITUDE) > EXPONENT else number(rounded)

    return element


def grid_element(rounding):
    """Return a function that rounds to a grid by dividing by the step, a power of two."""
    rounded = ROUNDINGS[rounding]

    @njit
    def element(x, p):
        x = clamp(x, -p.high, p.high)
        power = number(bits(x) & EXPONENT)
        power = p.smallest if power < p.smallest else power
        step = power * p.step
        return rounded(x / step) * step

    return element


@njit
def power_element(x, p):
    """Round to 0 and powers of two, ties to the even code."""
    x = clamp(x, -p.high, p.high)
    pattern = bits(x) & MAGNITUDE
    is_nan = pattern > EXPONENT
    last = (pattern >> np.int32(23)) & np.int32(1)
    tie = last if p.ties_to_odd > np.float32(0.0) else np.int32(1) - last
    power = number((pattern + tie + np.int32(0x3FFFFF)) & EXPONENT)
    power = p.smallest if power < p.smallest else power
    # up to half of the smallest power it is 0
    power = np.float32(0.0) if number(pattern) <= p.smallest * np.float32(0.5) else power
    power = x if is_nan else power
    return power if is_nan else with_sign_of(power, x)


ELEMENTS = {
    **{f"integer/{rounding}": integer_element(rounding) for rounding in ROUNDINGS},
    "grid_by_sum/nearest_even": grid_by_sum,
    **{f"grid_by_bits/{dropped}": grid_by_bits(dropped) for dropped in range(1, 23)},
    **{f"grid/{rounding}": grid_element(rounding) for rounding in ROUNDINGS},
    "power/nearest_even": power_element,
}
