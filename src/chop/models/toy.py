"""Small networks for experiments: one for rows of features, one for images."""

from __future__ import annotations

from torch import nn

from chop.models.base import DataInfo, LayerSequence, register_model


@register_model("toy", sample_dims=1)
class Toy(LayerSequence):
    """Three linear layers with ReLU in between; the hidden layers have 16 units each."""

    def __init__(self, info: DataInfo) -> None:
        super().__init__(
            nn.Linear(info.num_features, 16),
            nn.ReLU(),
            nn.Linear(16, 16),
            nn.ReLU(),
            nn.Linear(16, info.num_classes),
        )


@register_model("toy-convnet", sample_dims=3)
class ToyConvNet(LayerSequence):
    """Two convolutions with batch norm and pooling, then a linear layer; for images from 2 x 2 pixels."""

    def __init__(self, info: DataInfo) -> None:
        super().__init__(
            nn.Conv2d(info.feature_shape[0], 8, kernel_size=3, padding=1),
            nn.BatchNorm2d(8),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(8, 16, kernel_size=3, padding=1),
            nn.BatchNorm2d(16),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Linear(16, info.num_classes),
        )
