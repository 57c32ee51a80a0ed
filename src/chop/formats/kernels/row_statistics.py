"""Statistics of rows by a compiled loop, for `chop.statistics`."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from chop.formats.kernels.run import find_loop, in_threads, pack

NUM_CODES = 2**15


def row_moments(values: Tensor) -> list[Tensor] | None:
    """Return smallest, largest, sum and squared deviations of each row, in double precision.

    None if no loop can be used, or if a sum is not finite: with NaN or infinities in the values.
    """
    loop = find_loop(values, "moments", "rows")
    if loop is None or not values.is_contiguous():
        return None
    rows, length = values.shape
    found = torch.empty(rows, 4, dtype=torch.float64)
    source, target, packed = values.data_ptr(), found.data_ptr(), pack((0.0,))

    def run(begin: int, end: int) -> None:
        loop(source + 4 * length * begin, target + 32 * begin, end - begin, length, 1, 1, packed)

    in_threads(run, rows, values.numel())
    columns = [column.clone() for column in found.unbind(1)]  # not views of one tensor, because they are saved
    total = columns[2].item() if rows == 1 else columns[2].sum().item()
    return columns if math.isfinite(total) else None


def code_counts(values: Tensor) -> Tensor | None:
    """Return how often each combination of sign, exponent and top 6 mantissa bits occurs, in shape [rows, 2**15].

    None if no loop can be used, or if there are subnormal numbers. NaN is counted too.
    """
    loop = find_loop(values, "code_counts", "rows") if values.numel() < 2**31 else None
    if loop is None or not values.is_contiguous():
        return None
    rows, length = values.shape
    found = torch.zeros(rows * NUM_CODES + 1, dtype=torch.int32)
    loop(values.data_ptr(), found.data_ptr(), rows, length, 1, 1, pack((0.0,)))
    return None if found[-1] else found[:-1].view(rows, NUM_CODES)
