"""Loss and accuracy, added up on the device and read when someone asks."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from chop.training.batches import Batch

Reduce = Callable[[Tensor], Tensor]


class Meter:
    """Sums over the samples seen so far: their losses, the right answers, and their number."""

    def __init__(self, device: torch.device) -> None:
        exact = torch.float32 if device.type == "mps" else torch.float64
        self.sums = torch.zeros(2, dtype=exact, device=device)
        self._loss, self._correct = self.sums  # views: adding to them adds to `sums`
        self.num_samples = 0

    def add(self, loss_sum: Tensor, logits: Tensor, labels: Tensor) -> None:
        self._loss.add_(loss_sum.detach())
        self._correct.add_((logits.detach().argmax(dim=1) == labels).sum())
        self.num_samples += len(labels)

    def totals(self) -> Tensor:
        """Losses, right answers, samples: what is summed over processes."""
        return torch.cat([self.sums, self.sums.new_tensor([self.num_samples])])

    def restore(self, totals: Tensor) -> None:
        self.sums.copy_(totals[:2])
        self.num_samples = int(totals[2])

    def read(self, reduce: Reduce | None = None) -> tuple[float, float]:
        """The mean loss and the share of right answers."""
        loss, correct, count = (self.totals() if reduce is None else reduce(self.totals())).tolist()
        return loss / max(1, count), correct / max(1, count)


@dataclass(frozen=True)
class Evaluation:
    """How a model does on a part of the data set."""

    loss: float
    accuracy: float
    confusion: Tensor  # [true class, answered class], numbers of samples


def evaluate(
    model: nn.Module, batches: Iterable[Batch], num_classes: int, device: torch.device, reduce: Reduce | None = None
) -> Evaluation:
    """Loss, accuracy and confusion matrix of a model in evaluation mode, whose mode is given back."""
    meter = Meter(device)
    confusion = torch.zeros(num_classes**2, dtype=torch.int64, device=device)
    training = model.training
    model.eval()
    with torch.no_grad():
        for batch in batches:
            features, labels = batch.features.to(device), batch.labels.to(device)
            logits = model(features)
            meter.add(F.cross_entropy(logits, labels, reduction="sum"), logits, labels)
            confusion += torch.bincount(labels * num_classes + logits.argmax(dim=1), minlength=num_classes**2)
    model.train(training)
    loss, accuracy = meter.read(reduce)
    confusion = confusion if reduce is None else reduce(confusion)
    return Evaluation(loss, accuracy, confusion.view(num_classes, num_classes).cpu())
