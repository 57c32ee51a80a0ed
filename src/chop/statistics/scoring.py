"""Loss and accuracy of a classifier, summed over batches; a language model classifies every token."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from chop.dataset.splits import IGNORED
from chop.formats.kernels.row_statistics import RowScores, row_scores
from chop.ir import MaseGraph
from chop.ir.graph.device import CPU, device_of
from chop.ir.graph.interpreter import run_model, tensors_in, undisturbed

MAX_SCORES = 2**22
"""Logits of a language model that are scored together: 32 MB in float64, of which there are several copies."""


def per_token(logits: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """Return the scored tokens of texts as rows: logits [tokens, classes] and labels [tokens].

    Logits [texts, tokens, classes] with labels [texts, tokens] are those of a language model; others are returned
    as they are.
    """
    if logits.dim() != 3 or labels.shape != logits.shape[:2]:
        return logits, labels
    scored = labels != IGNORED
    if scored.all():  # no copy is needed
        return logits.flatten(0, 1), labels.flatten()
    return logits[scored], labels[scored]


def by_text(logits: Tensor, labels: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield what `per_token` returns, for a few tokens at a time: their logits take a lot of memory."""
    if logits.dim() != 3 or labels.shape != logits.shape[:2]:
        yield logits, labels
        return
    tokens = max(1, MAX_SCORES // logits.shape[2])
    for text, its_labels in zip(logits.split(1), labels.split(1), strict=True):
        yield from map(per_token, text.split(tokens, 1), its_labels.split(tokens, 1))


def fast_scores(logits: Tensor, labels: Tensor) -> tuple[float, int]:
    """Return the cross entropy summed over a batch, and the number of correct rows, as `num_correct`.

    It takes a third of the time of `F.cross_entropy` for few classes, and finds the largest logit of each row once
    for both. `logits` has shape [rows, classes], `labels` (int64) shape [rows]. The difference of two large sums
    is less accurate than `F.cross_entropy` if nearly all rows are confident and correct; a search ranks trials.
    """
    found = row_scores(logits, labels) or _eager_row_scores(logits, labels)
    log_sums = found.shifted.exp_().sum(dim=0).log_().add_(found.shifts)
    return (log_sums.sum() - found.of_labels.sum()).item(), found.num_correct


def _eager_row_scores(logits: Tensor, labels: Tensor) -> RowScores:
    largest, predicted = logits.max(dim=1)
    finite = torch.finfo(logits.dtype)
    shifts = largest.clamp(finite.min, finite.max)  # the difference of two infinities is not a number
    shifted = logits.transpose(0, 1).contiguous() - shifts  # classes first: sums of few numbers in a row are slow
    of_labels = logits.gather(1, labels.unsqueeze(1)).squeeze(1)
    return RowScores(shifted, shifts, of_labels, int((predicted == labels).sum().item()))


def num_correct(logits: Tensor, labels: Tensor) -> Tensor:
    """Return the number of rows whose largest logit is that of their label, as a tensor."""
    return (logits.argmax(dim=1) == labels).sum()


def correct_predictions(logits: Tensor, labels: Tensor) -> Tensor:
    """Return whether each prediction is right, a bool per row or per scored token."""
    logits, labels = per_token(logits, labels)
    return logits.argmax(dim=1) == labels


class Score:
    """Mean loss and accuracy of the batches added so far. The sums stay on the device until they are read."""

    def __init__(self, device: torch.device = CPU) -> None:
        dtype = torch.float32 if device.type == "mps" else torch.float64  # MPS has no float64
        self._sums = torch.zeros(2, dtype=dtype, device=device)
        self._loss, self._correct = self._sums  # views: adding to them adds to `_sums`
        self.num_samples = 0

    def add(self, logits: Tensor, labels: Tensor, loss_sum: Tensor | None = None) -> None:
        """Add a batch; `loss_sum` is the sum of its losses, if it is known already."""
        if loss_sum is not None:
            self._loss.add_(loss_sum.detach())
        for rows, targets in by_text(logits.detach(), labels):
            if loss_sum is None:
                self._loss.add_(F.cross_entropy(rows, targets, reduction="sum"))
            self._correct.add_(num_correct(rows, targets))
            self.num_samples += targets.numel()

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of the sums: float64 where the device has it."""
        return self._sums.dtype

    def totals(self) -> Tensor:
        """Return the sum of the losses, the number of correct answers and the number of rows."""
        return torch.cat([self._sums, self._sums.new_tensor([self.num_samples])])

    def restore(self, totals: Tensor) -> None:
        """Continue from what `totals` returned."""
        self._sums.copy_(totals[:2])
        self.num_samples = int(totals[2])

    def read(self, reduce: Callable[[Tensor], Tensor] | None = None) -> tuple[float, float]:
        """Return mean loss and accuracy, 0 without rows; `reduce` sums the totals of several processes."""
        loss, correct, count = (self.totals() if reduce is None else reduce(self.totals())).tolist()
        return loss / max(1, count), correct / max(1, count)


def add_output(score: Score, output: Any, labels: Tensor) -> None:
    """Add the output of any model, whose first tensor has the logits; raise ValueError if the labels do not fit.

    Computed in float64: the difference of two losses is small, and float32 would lose its digits.
    """
    logits = next(iter(tensors_in(output)), None)
    if logits is None:
        raise ValueError("the model returns no tensor, so there are no logits to compare with the labels")
    if labels.is_floating_point():
        raise ValueError(f"labels must be integer class indices, got a tensor of {labels.dtype}")
    for rows, targets in by_text(logits, labels.to(logits.device)):
        misfit = f"labels of shape {list(targets.shape)} do not fit an output of shape {list(rows.shape)}"
        if rows.ndim < 2 or targets.shape != rows.shape[:1] + rows.shape[2:]:
            raise ValueError(misfit)
        try:
            score.add(rows.to(score.dtype), targets.long())
        except (RuntimeError, IndexError) as error:  # a label that is not a class
            raise ValueError(f"{misfit}: {error}") from error


def accuracy_on(
    graph: MaseGraph, labelled_batches: Iterable[tuple[Mapping[str, Any], Tensor]] | None
) -> float | None:
    """Return the accuracy of a graph on batches with their labels; None without batches."""
    if labelled_batches is None:
        return None
    score = Score(device_of(graph.model))
    with undisturbed(graph.model):
        for batch, labels in labelled_batches:
            add_output(score, run_model(graph, batch), labels)
    return score.read()[1]
