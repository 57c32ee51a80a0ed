"""Logits of labels by a compiled loop, for `chop.statistics`."""

from __future__ import annotations

import torch
from torch import Tensor

from chop.formats.kernels.run import find_loop, in_threads

_MAX_ROWS = 2**24
"""Float32 numbers count up to here."""


def label_scores(logits: Tensor, labels: Tensor) -> tuple[Tensor, int] | None:
    """Return the logit of the label of each row, and how many of them are the first largest logit of their row.

    None if no loop can be used, or if a label is not a class.
    """
    loop = find_loop(logits, "label_scores", "rows") if _fit(logits, labels) else None
    if loop is None:
        return None
    rows, classes = logits.shape
    found = torch.empty(2, rows)
    source, target, given = logits.data_ptr(), found.data_ptr(), labels.data_ptr()

    def run(begin: int, end: int) -> None:
        offset = 4 * begin
        loop(source + classes * offset, target + offset, end - begin, classes, 1, rows, given + 2 * offset)

    in_threads(run, rows, logits.numel())
    num_right = found[1].sum().item()
    return (found[0], int(num_right)) if num_right >= 0 else None


def _fit(logits: Tensor, labels: Tensor) -> bool:
    return (
        logits.dim() == 2
        and labels.shape == logits.shape[:1]
        and labels.dtype is torch.int64
        and labels.is_cpu
        and len(labels) <= _MAX_ROWS
        and logits.is_contiguous()
        and labels.is_contiguous()
    )
