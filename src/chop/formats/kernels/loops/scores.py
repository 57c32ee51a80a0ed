"""Loops that compare the logits of rows with their labels."""

import numpy as np
from numba import carray, njit

from chop.formats.kernels.loops.elements import EXPONENT, MAGNITUDE, bits
from chop.formats.kernels.loops.statistics import ordered

NAN_KEY = np.int32(0x7FFFFFFF)


@njit
def key(value):
    """Return integers in the order of numbers: 0 and -0 are equal, NaN is the largest."""
    pattern = np.int32(bits(value + np.float32(0.0)))
    return NAN_KEY if np.int32(pattern & MAGNITUDE) > EXPONENT else ordered(pattern)


def label_scores(_):
    """Return a loop over rows of n logits: the logit of the label, and whether it is the first largest of its row.

    The parameters are labels of 64 bits. The target has `size` logits, then `size` numbers: 1 if the label is
    right, 0 if not, and -infinity for a label that is not from 0 to n - 1.
    """

    def loop(source, target, outer, n, inner, size, parameters):
        x, y = carray(source, (outer, n)), carray(target, size + outer)
        labels = carray(parameters, 2 * outer)
        for row in range(outer):
            label, upper_half = np.int64(bits(labels[2 * row])), bits(labels[2 * row + 1])
            if upper_half != 0 or label < 0 or label >= n:
                y[size + row] = np.float32(-np.inf)
                continue
            own = key(x[row, label])
            num_better = np.int32(0)
            for i in range(n):
                other = key(x[row, i])
                num_better += np.int32(other > own) | (np.int32(other == own) & np.int32(i < label))
            y[row] = x[row, label]
            y[size + row] = np.float32(0.0) if num_better else np.float32(1.0)

    return loop
