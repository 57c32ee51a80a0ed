"""Statistics of rows by a compiled loop, for `chop.statistics`."""

from __future__ import annotations

import ctypes
import math
from typing import NamedTuple

import torch
from torch import Tensor

from chop.formats.kernels.run import find_loop, in_threads, pack

NUM_CODES = 2**15
_NO_PARAMETERS = pack((0.0,))


class MomentsTable:
    """Smallest, largest, sum and squared deviations of rows of several tensors, in double precision."""

    def __init__(self, num_rows: int) -> None:
        """Reserve memory for `num_rows`; there may be more."""
        self._found = torch.empty(4, num_rows, dtype=torch.float64)
        self._num_rows, self._max_rows, self._address = 0, num_rows, self._found.data_ptr()

    def add(self, values: Tensor, rows: int) -> bool:
        """Add the values of a tensor, in C order as rows of equal length.

        Return False if no loop can be used, or if a sum is not finite: with NaN or infinities in the values.
        """
        loop = find_loop(values, "moments", "rows")
        if loop is None or not values.is_contiguous():
            return False
        first, stop = self._num_rows, self._num_rows + rows
        if stop > self._max_rows:
            self._grow(stop)
        numel, source, target, width = values.numel(), values.data_ptr(), self._address + 8 * first, self._max_rows
        length = numel // rows

        def run(begin: int, end: int) -> None:
            loop(source + 4 * length * begin, target + 8 * begin, end - begin, length, width, 1, _NO_PARAMETERS)

        in_threads(run, rows, numel)
        if rows == 1:
            total = ctypes.c_double.from_address(target + 16 * width).value
        else:
            total = self._found[2, first:stop].sum().item()
        if not math.isfinite(total):
            return False
        self._num_rows = stop
        return True

    def columns(self) -> tuple[Tensor, ...]:
        """Return smallest, largest, sum and squared deviations of all rows."""
        return self._found[:, : self._num_rows].unbind()

    def _grow(self, num_rows: int) -> None:
        self._found = torch.cat((self._found, self._found.new_empty(4, num_rows)), dim=1)
        self._max_rows, self._address = self._found.shape[1], self._found.data_ptr()


def row_moments(values: Tensor) -> tuple[Tensor, ...] | None:
    """Return smallest, largest, sum and squared deviations of each row; None if `MomentsTable` cannot find them."""
    table = MomentsTable(len(values))
    if not table.add(values, len(values)):
        return None
    return tuple(column.clone() for column in table.columns())  # a pickled view contains the whole table


def code_counts(values: Tensor) -> Tensor | None:
    """Return how often each combination of sign, exponent and top 6 mantissa bits occurs, in shape [rows, 2**15].

    None if no loop can be used, or if there are subnormal numbers. NaN is counted too.
    """
    loop = find_loop(values, "code_counts", "rows") if values.numel() < 2**31 else None
    if loop is None or not values.is_contiguous():
        return None
    rows, length = values.shape
    found = torch.zeros(rows * NUM_CODES + 1, dtype=torch.int32)
    loop(values.data_ptr(), found.data_ptr(), rows, length, 1, 1, _NO_PARAMETERS)
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
