"""Weights that two models have in common, in memory once."""

from __future__ import annotations

import torch
from torch import nn


def share_equal_weights(model: nn.Module, other: nn.Module) -> None:
    """Make parameters of `model` use the memory of equal parameters of `other` with the same name.

    A change in place of one of them then changes both.
    """
    known = dict(other.named_parameters())
    for name, parameter in model.named_parameters():
        same = known.get(name)
        if same is not None and same.dtype == parameter.dtype and torch.equal(same, parameter):
            parameter.data = same.data
