"""Models as a user has them in a notebook."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class SkipCNN(nn.Module):
    """A CNN with a skip connection."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(1, 8, 3, padding=1)
        self.second = nn.Conv2d(8, 8, 3, padding=1)
        self.norm = nn.BatchNorm2d(8)
        self.last = nn.Linear(8, 5)

    def forward(self, images: Tensor) -> Tensor:
        x = torch.relu(self.first(images))
        x = x + torch.relu(self.norm(self.second(x)))
        scores: Tensor = self.last(x.mean((2, 3)))
        return scores


class Decides(nn.Module):
    """A model that cannot be captured: its code depends on values."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.b(self.a(x)) if x.sum() > 0 else self.b(x)
        return y


def mlp() -> nn.Sequential:
    return nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 4))


def rows(num_batches: int = 2, num_features: int = 6, num_classes: int = 4) -> list[tuple[Tensor, Tensor]]:
    generator = torch.Generator().manual_seed(0)
    return [
        (
            torch.randn(8, num_features, generator=generator),
            torch.randint(num_classes, (8,), generator=generator),
        )
        for _ in range(num_batches)
    ]
