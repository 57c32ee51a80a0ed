"""Classification of rows, images or texts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor

from chop.dataset import DatasetInfo
from chop.statistics.scoring import Score
from chop.tasks.base import Evaluation, Reduce, first_tensor, register_task

MAX_CONFUSION_CLASSES = 1000
"""With more classes there is no confusion matrix: it would need 8 bytes per pair of classes."""


@register_task("cls")
class Classification:
    """One class per sample: accuracy, mean loss and confusion matrix."""

    compares: ClassVar[bool] = False

    def meter(
        self, info: DatasetInfo, device: torch.device, original: Evaluation | None = None
    ) -> ClassificationMeter:
        return ClassificationMeter(info.num_classes, device)

    def check_output(self, output: Any, num_rows: int, info: DatasetInfo) -> str | None:
        expected = (num_rows, info.num_classes)
        return None if first_tensor(output).shape == expected else f"{list(expected)}, one score per class"


class ClassificationMeter:
    """Sums of a classifier's batches."""

    def __init__(self, num_classes: int, device: torch.device) -> None:
        self._score, self._num_classes = Score(device), num_classes
        size = num_classes**2 if num_classes <= MAX_CONFUSION_CLASSES else 0
        self._confusion = torch.zeros(size, dtype=torch.int64, device=device)

    def add(self, output: Any, labels: Tensor, inputs: Mapping[str, Tensor]) -> None:
        logits = first_tensor(output)
        self._score.add(logits, labels)
        if size := self._confusion.numel():
            self._confusion += torch.bincount(labels * self._num_classes + logits.argmax(dim=1), minlength=size)

    def read(self, reduce: Reduce | None = None) -> Evaluation:
        loss, accuracy = self._score.read(reduce)
        metrics = {"accuracy": accuracy, "loss": loss}
        if not self._confusion.numel():
            return Evaluation(metrics)
        confusion = self._confusion if reduce is None else reduce(self._confusion)
        return Evaluation(metrics, confusion.view(self._num_classes, self._num_classes).cpu())
