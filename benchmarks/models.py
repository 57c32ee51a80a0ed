"""Models for measurements, in plain PyTorch with random weights."""

from __future__ import annotations

from typing import cast

from torch import Tensor, nn


class Residual(nn.Module):
    """Two 3 x 3 convolutions and a shortcut, which is projected if the shape changes."""

    def __init__(self, num_in: int, num_out: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(num_in, num_out, 3, stride, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(num_out)
        self.relu1 = nn.ReLU(inplace=True)
        self.conv2 = nn.Conv2d(num_out, num_out, 3, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(num_out)
        self.relu2 = nn.ReLU(inplace=True)
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or num_in != num_out:
            projection = nn.Conv2d(num_in, num_out, 1, stride, bias=False)
            self.shortcut = nn.Sequential(projection, nn.BatchNorm2d(num_out))

    def forward(self, x: Tensor) -> Tensor:
        y = self.relu1(self.norm1(self.conv1(x)))
        y = self.norm2(self.conv2(y))
        return cast(Tensor, self.relu2(y + self.shortcut(x)))


class ResNet18(nn.Module):
    """ResNet-18 (He et al., 2016) for 1000 classes; images are [n, 3, 224, 224]."""

    def __init__(self, num_classes: int = 1000, width: int = 64) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, width, 7, stride=2, padding=3, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(3, stride=2, padding=1),
        )
        blocks: list[nn.Module] = []
        num_in = width
        for stage in range(4):
            num_out = width << stage
            blocks += [Residual(num_in, num_out, 1 if stage == 0 else 2), Residual(num_out, num_out, 1)]
            num_in = num_out
        self.blocks = nn.Sequential(*blocks)
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.flatten = nn.Flatten()
        self.head = nn.Linear(num_in, num_classes)

    def forward(self, x: Tensor) -> Tensor:
        return cast(Tensor, self.head(self.flatten(self.pool(self.blocks(self.stem(x))))))
