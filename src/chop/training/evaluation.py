"""Loss, accuracy and confusion matrix of a model on rows of a data set."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from chop.dataset import DatasetInfo
from chop.ir.graph.interpreter import evaluation_mode
from chop.statistics.scoring import Score
from chop.training.batches import Batch

Reduce = Callable[[Tensor], Tensor]
"""Sums a tensor over all processes."""
MAX_CONFUSION_CLASSES = 1000
"""With more classes there is no confusion matrix: it would need 8 bytes per pair of classes."""


@dataclass(frozen=True)
class Evaluation:
    """How well a model classifies the rows of a split."""

    loss: float
    accuracy: float
    confusion: Tensor | None
    """Numbers of samples, [true class, predicted class]; None above `MAX_CONFUSION_CLASSES`."""

    def as_dict(self) -> dict[str, Any]:
        """Return the result as the summary of a run holds it."""
        confusion = {} if self.confusion is None else {"confusion": self.confusion.tolist()}
        return {"accuracy": self.accuracy, "loss": self.loss, **confusion}


def evaluate(
    model: nn.Module, batches: Iterable[Batch], num_classes: int, device: torch.device, reduce: Reduce | None = None
) -> Evaluation:
    """Evaluate a model in evaluation mode; its mode is restored, also after an error."""
    score = Score(device)
    size = num_classes**2 if num_classes <= MAX_CONFUSION_CLASSES else 0
    confusion = torch.zeros(size, dtype=torch.int64, device=device)
    with evaluation_mode(model):
        for batch in batches:
            features, labels = batch.features.to(device), batch.labels.to(device)
            logits = model(features)
            score.add(logits, labels)
            if size:
                confusion += torch.bincount(labels * num_classes + logits.argmax(dim=1), minlength=size)
    loss, accuracy = score.read(reduce)
    if not size:
        return Evaluation(loss, accuracy, None)
    confusion = confusion if reduce is None else reduce(confusion)
    return Evaluation(loss, accuracy, confusion.view(num_classes, num_classes).cpu())


def class_names(info: DatasetInfo) -> Sequence[str]:
    """Return the names of the classes, or their numbers if they have no names."""
    return info.class_names or [str(number) for number in range(info.num_classes)]
