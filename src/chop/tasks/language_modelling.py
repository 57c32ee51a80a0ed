"""Language modelling: the prediction of the next token."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor

from chop.dataset import DatasetInfo
from chop.statistics.scoring import Score
from chop.tasks.base import Evaluation, Reduce, first_tensor, register_task

MAX_EXPONENT = 700  # of a float


def perplexity(loss: float) -> float:
    """Return the perplexity of a mean loss per token."""
    return math.exp(loss) if loss < MAX_EXPONENT else math.inf


@register_task("lm")
class LanguageModelling:
    """A score per token of the vocabulary, at every position of a text: perplexity, loss and accuracy per token."""

    compares: ClassVar[bool] = False

    def meter(
        self, info: DatasetInfo, device: torch.device, original: Evaluation | None = None
    ) -> LanguageModellingMeter:
        return LanguageModellingMeter(device)

    def check_output(self, output: Any, num_rows: int, info: DatasetInfo) -> str | None:
        shape = first_tensor(output).shape
        if len(shape) == 3 and shape[:2] == (num_rows, info.num_features) and shape[2] >= info.num_classes:
            return None
        return (
            f"[{num_rows}, {info.num_features}, {info.num_classes} or more], one score per token of the tokenizer"
        )


class LanguageModellingMeter:
    """Sums of a language model's windows."""

    def __init__(self, device: torch.device) -> None:
        self._score = Score(device)

    def add(self, output: Any, labels: Tensor, inputs: Mapping[str, Tensor]) -> None:
        self._score.add(first_tensor(output), labels)

    def read(self, reduce: Reduce | None = None) -> Evaluation:
        loss, accuracy = self._score.read(reduce)
        return Evaluation({"perplexity": perplexity(loss), "loss": loss, "accuracy": accuracy})
