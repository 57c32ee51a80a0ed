"""The residual networks for CIFAR-10 of He et al. (2016): 6n + 2 layers in three stages of n blocks.

Shortcuts between stages have no parameters (option A of the paper): they take every second pixel, and the added
channels are zero. The names of the parameters are those of published checkpoints.
"""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn

from chop.models.base import DataInfo, Normalization, register_model

NORMALIZATION = Normalization(mean=(0.485, 0.456, 0.406), std=(0.229, 0.224, 0.225))
"""Of the images that the published checkpoints were trained on: the statistics of ImageNet."""


class BasicBlock(nn.Module):
    """Two convolutions with batch norm, and a shortcut."""

    def __init__(self, in_channels: int, channels: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(in_channels, channels, 3, stride=stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(channels)
        self.relu1 = nn.ReLU()
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(channels)
        self.relu2 = nn.ReLU()
        self.stride, self.new_channels = stride, channels - in_channels

    def forward(self, x: Tensor) -> Tensor:
        y = self.relu1(self.bn1(self.conv1(x)))
        y = self.bn2(self.conv2(y))
        if self.new_channels:
            before = self.new_channels // 2
            padding = (0, 0, 0, 0, before, self.new_channels - before)
            x = F.pad(x[:, :, :: self.stride, :: self.stride], padding)
        result: Tensor = self.relu2(y + x)
        return result


class CifarResNet(nn.Module):
    """Three stages of 16, 32 and 64 channels with `num_blocks` blocks each."""

    def __init__(self, info: DataInfo, num_blocks: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(info.feature_shape[0], 16, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(16)
        self.relu = nn.ReLU()
        self.layer1 = _stage(16, 16, num_blocks, stride=1)
        self.layer2 = _stage(16, 32, num_blocks, stride=2)
        self.layer3 = _stage(32, 64, num_blocks, stride=2)
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.flatten = nn.Flatten()
        self.linear = nn.Linear(64, info.num_classes)
        for layer in self.modules():
            if isinstance(layer, nn.Conv2d | nn.Linear):
                nn.init.kaiming_normal_(layer.weight)

    def forward(self, x: Tensor) -> Tensor:
        x = self.relu(self.bn1(self.conv1(x)))
        x = self.layer3(self.layer2(self.layer1(x)))
        scores: Tensor = self.linear(self.flatten(self.avgpool(x)))
        return scores


def _stage(in_channels: int, channels: int, num_blocks: int, stride: int) -> nn.Sequential:
    first = BasicBlock(in_channels, channels, stride)
    return nn.Sequential(first, *(BasicBlock(channels, channels, stride=1) for _ in range(num_blocks - 1)))


@register_model("resnet20", sample_dims=3, normalization=NORMALIZATION)
def resnet20(info: DataInfo) -> CifarResNet:
    """ResNet with 20 layers for 32 x 32 images; 91.25 % on CIFAR-10 in the paper."""
    return CifarResNet(info, num_blocks=3)


@register_model("resnet32", sample_dims=3, normalization=NORMALIZATION)
def resnet32(info: DataInfo) -> CifarResNet:
    """ResNet with 32 layers for 32 x 32 images; 92.49 % on CIFAR-10 in the paper."""
    return CifarResNet(info, num_blocks=5)


@register_model("resnet44", sample_dims=3, normalization=NORMALIZATION)
def resnet44(info: DataInfo) -> CifarResNet:
    """ResNet with 44 layers for 32 x 32 images; 92.83 % on CIFAR-10 in the paper."""
    return CifarResNet(info, num_blocks=7)


@register_model("resnet56", sample_dims=3, normalization=NORMALIZATION)
def resnet56(info: DataInfo) -> CifarResNet:
    """ResNet with 56 layers for 32 x 32 images; 93.03 % on CIFAR-10 in the paper."""
    return CifarResNet(info, num_blocks=9)
