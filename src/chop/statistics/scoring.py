"""How right a model's answers are."""

from __future__ import annotations

import math
from typing import Any

import torch.nn.functional as F
from torch import Tensor

from chop.ir.graph.interpreter import tensors_in


class Score:
    """Mean cross entropy and share of right answers over all that was added; None before that."""

    def __init__(self) -> None:
        self._loss = 0.0
        self._correct = self._count = 0

    @property
    def loss(self) -> float | None:
        return self._loss / self._count if self._count else None

    @property
    def accuracy(self) -> float | None:
        return self._correct / self._count if self._count else None

    def add(self, output: Any, labels: Tensor) -> None:
        """What a model gave, of which the first tensor counts, and the classes that were right."""
        logits = next(iter(tensors_in(output)), None)
        if logits is None:
            raise ValueError("the model's output is no tensor: there are no answers to compare the labels with")
        if labels.is_floating_point():
            raise ValueError(f"labels must be numbers of classes, got a tensor of {labels.dtype}")
        try:
            # Changes are small beside the loss itself: float32 would lose their digits.
            loss = F.cross_entropy(logits.double(), labels.long(), reduction="sum").item()
            correct = int((logits.argmax(dim=1) == labels).sum())
        except (RuntimeError, IndexError, ValueError) as error:
            given, expected = list(labels.shape), list(logits.shape)
            raise ValueError(f"labels {given} do not fit the model's output {expected}: {error}") from error
        self._loss += math.inf if math.isnan(loss) else loss
        self._correct += correct
        self._count += labels.numel()
