"""Loss, accuracy and confusion matrix of a model on rows of a data set."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from chop.dataset import DatasetInfo
from chop.ir.graph.interpreter import evaluation_mode
from chop.statistics.scoring import Score
from chop.training.batches import Batch

Reduce = Callable[[Tensor], Tensor]
"""Sums a tensor over all processes."""


@dataclass(frozen=True)
class Evaluation:
    """How well a model classifies the rows of a split."""

    loss: float
    accuracy: float
    confusion: Tensor
    """Numbers of samples, [true class, predicted class]."""


def evaluate(
    model: nn.Module, batches: Iterable[Batch], num_classes: int, device: torch.device, reduce: Reduce | None = None
) -> Evaluation:
    """Evaluate a model in evaluation mode; its mode is restored, also after an error."""
    score = Score(device)
    confusion = torch.zeros(num_classes**2, dtype=torch.int64, device=device)
    with evaluation_mode(model):
        for batch in batches:
            features, labels = batch.features.to(device), batch.labels.to(device)
            logits = model(features)
            score.add(logits, labels)
            confusion += torch.bincount(labels * num_classes + logits.argmax(dim=1), minlength=num_classes**2)
    loss, accuracy = score.read(reduce)
    confusion = confusion if reduce is None else reduce(confusion)
    return Evaluation(loss, accuracy, confusion.view(num_classes, num_classes).cpu())


def class_names(info: DatasetInfo) -> Sequence[str]:
    """Return the names of the classes, or their numbers if they have no names."""
    return info.class_names or [str(number) for number in range(info.num_classes)]
