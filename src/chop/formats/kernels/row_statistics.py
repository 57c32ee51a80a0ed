"""Statistics of rows by a compiled loop, for `chop.statistics`."""

from __future__ import annotations

import math
from typing import NamedTuple

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


class RowScores(NamedTuple):
    """What loss and accuracy need of the logits of each row."""

    shifted: Tensor
    """The logits minus the shift of their row, in shape [classes, rows]."""
    shifts: Tensor
    """The largest logits, but finite."""
    of_labels: Tensor
    """The logits of the labels."""
    num_correct: int
    """The rows whose first largest logit is that of their label."""


def row_scores(logits: Tensor, labels: Tensor) -> RowScores | None:
    """Return what loss and accuracy need of logits [rows, classes] and labels [rows].

    None if no loop can be used, if a label is not a class, or if a logit is NaN.
    """
    loop = find_loop(logits, "scores", "rows") if logits.dim() == 2 else None
    if loop is None or labels.dtype is not torch.int64 or not (logits.is_contiguous() and labels.is_contiguous()):
        return None
    rows, classes = logits.shape
    found = torch.empty((classes + 2) * rows + 1)
    loop(logits.data_ptr(), found.data_ptr(), rows, classes, 1, 1, labels.data_ptr())
    num_correct = int(found[-1:].view(torch.int32).item())
    if num_correct < 0:
        return None
    by_class = found[:-1].view(classes + 2, rows)
    return RowScores(by_class[:classes], by_class[classes], by_class[classes + 1], num_correct)
