"""Jet taggers: from 16 features of a jet to scores of 5 kinds of particle."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from torch import nn

from chop.models.base import DataInfo, LayerSequence, register_model


@register_model("jsc-tiny", sample_dims=1)
class JSCTiny(LayerSequence):
    """The smallest jet tagger: one linear layer, 117 parameters."""

    def __init__(self, info: DataInfo) -> None:
        super().__init__(
            nn.BatchNorm1d(info.num_features),
            nn.ReLU(inplace=True),
            nn.Linear(info.num_features, info.num_classes),
            nn.ReLU(inplace=True),
        )


@register_model("jsc-toy", sample_dims=1)
class JSCToy(LayerSequence):
    """A small jet tagger: hidden layers of 8 and 8, 327 parameters."""

    def __init__(self, info: DataInfo) -> None:
        super().__init__(
            nn.BatchNorm1d(info.num_features),
            nn.ReLU(inplace=True),
            nn.Linear(info.num_features, 8),
            nn.BatchNorm1d(8),
            nn.ReLU(inplace=True),
            nn.Linear(8, 8),
            nn.BatchNorm1d(8),
            nn.ReLU(inplace=True),
            nn.Linear(8, info.num_classes),
            nn.BatchNorm1d(info.num_classes),
            nn.ReLU(inplace=True),
        )


@register_model("jsc-s", sample_dims=1)
class JSCS(LayerSequence):
    """A jet tagger with hidden layers of 64, 32, 32 and 32: 5,615 parameters."""

    def __init__(self, info: DataInfo) -> None:
        super().__init__(
            nn.BatchNorm1d(info.num_features),
            nn.ReLU(inplace=True),
            nn.Linear(info.num_features, 64),
            nn.BatchNorm1d(64),
            nn.ReLU(inplace=True),
            nn.Linear(64, 32),
            nn.ReLU(inplace=True),
            nn.Linear(32, 32),
            nn.ReLU(inplace=True),
            nn.Linear(32, 32),
            nn.ReLU(inplace=True),
            nn.Linear(32, info.num_classes),
            nn.BatchNorm1d(info.num_classes),
            nn.ReLU(inplace=True),
        )


@register_model("jsc-mlp", sample_dims=1)
class JSCMLP(LayerSequence):
    """A jet tagger with hidden layers of any width; the default is 64, 32 and 32."""

    def __init__(self, info: DataInfo, hidden: Sequence[int] = (64, 32, 32)) -> None:
        is_list = isinstance(hidden, list | tuple)
        if not is_list or not hidden or any(not isinstance(width, int) or width < 1 for width in hidden):
            raise ValueError(f"'hidden' must be a list of positive integers, got {hidden}")
        widths = [info.num_features, *hidden]
        layers = [
            layer
            for before, after in pairwise(widths)
            for layer in (nn.Linear(before, after), nn.ReLU(inplace=True))
        ]
        super().__init__(nn.BatchNorm1d(info.num_features), *layers, nn.Linear(widths[-1], info.num_classes))
