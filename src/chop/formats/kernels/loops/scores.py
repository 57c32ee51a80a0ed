"""A loop over the logits of a classifier: what loss and accuracy need of each row, in one pass."""

import numpy as np
from numba import carray

from chop.formats.kernels.loops.elements import bits, clamp, number

LARGEST = np.finfo(np.float32).max


def scores(_):
    """Return a loop over rows of n logits; the parameters are labels of 64 bits.

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
