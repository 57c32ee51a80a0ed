"""The numbers of an epoch, and which of two is the better one."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Epoch:
    """What is known after an epoch, the first of which is number 1."""

    epoch: int
    step: int
    learning_rate: float
    train_loss: float
    train_accuracy: float
    val_loss: float
    val_accuracy: float

    @property
    def rank(self) -> tuple[float, float]:
        """The larger, the better: by accuracy, then by loss."""
        return (self.val_accuracy, -self.val_loss) if math.isfinite(self.val_loss) else (-1.0, 0.0)

    def __str__(self) -> str:
        return (
            f"epoch {self.epoch:3}  loss {self.train_loss:.4f}  accuracy {self.train_accuracy:.4f}  "
            f"val loss {self.val_loss:.4f}  val accuracy {self.val_accuracy:.4f}  lr {self.learning_rate:.2e}"
        )
