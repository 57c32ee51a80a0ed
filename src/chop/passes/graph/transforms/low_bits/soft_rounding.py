"""Values between the two nearest ones of a format, with a learned choice between these (AdaRound)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from chop.passes.graph.transforms.low_bits.layers import RoundingArgs
from chop.passes.graph.transforms.low_bits.scales import FixedScales

_LOW, _HIGH = -0.1, 1.1
"""The range of the sigmoid before it is cut to 0..1."""
_FREE_SHARE = 0.2
"""The share of the steps in which choices may stay between both values."""


@dataclass(frozen=True)
class AdaRoundArgs(RoundingArgs):
    """Arguments of `adaround`."""

    iterations: int = 500
    """The steps of gradient descent per layer, or per block."""
    learning_rate: float = 0.05
    """The learning rate of Adam."""
    regularization: float = 1.0
    """The weight of the term that moves each choice to up or down, relative to the error of rounding to nearest."""
    layers_per_block: int = 1
    """The least number of layers that learn together, for the output of the last of them; 0: the whole network."""
    float_learning_rate: float = 0.001
    """The learning rate of normalisations and of biases in float, in blocks of several layers; 0: they stay."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.iterations < 1:
            raise ValueError(f"'iterations' must be at least 1, got {self.iterations}")
        if self.layers_per_block < 0:
            raise ValueError(f"'layers_per_block' must be at least 0, got {self.layers_per_block}")


@dataclass(frozen=True)
class SoftRounding:
    """The two values that each element may become, and the learned choice between them."""

    near: Tensor
    other: Tensor
    logits: Tensor
    """Trainable; the choice is their sigmoid."""

    @classmethod
    def of(cls, fixed: FixedScales, wanted: Tensor, dtype: torch.dtype) -> SoftRounding:
        """Return choices that start where the value is the wanted one."""
        near, other = neighbours(fixed, wanted)
        if fixed.held is not None and fixed.reference is not None:
            held = fixed.rounded(fixed.reference, fixed.scales)
            near, other = torch.where(fixed.held, held, near), torch.where(fixed.held, held, other)
        gap, target = (other - near).to(dtype), wanted.to(dtype) - near
        share = torch.where(gap == 0, 0.0, target / torch.where(gap == 0, 1.0, gap)).clamp(0.01, 0.99)
        logits = ((share - _LOW) / (_HIGH - _LOW)).logit()
        return cls(near, other, logits.requires_grad_())

    def choice(self) -> Tensor:
        """Return the choice of each element: 0 for `near`, 1 for `other`."""
        return (self.logits.sigmoid() * (_HIGH - _LOW) + _LOW).clamp(0, 1)

    def value(self) -> Tensor:
        """Return the values between both, with a gradient."""
        return self.near + (self.other - self.near) * self.choice()

    def rounded(self) -> Tensor:
        """Return the value that is chosen."""
        return torch.where(self.choice().detach() > 0.5, self.other, self.near)

    def indecision(self, progress: float) -> Tensor | float:
        """Return the mean distance of all choices from 0 and 1, after `progress` (0 to 1) of all steps."""
        if progress <= _FREE_SHARE:
            return 0.0
        power = 2 + 18 * 0.5 * (1 + math.cos(math.pi * (progress - _FREE_SHARE) / (1 - _FREE_SHARE)))
        return (1 - (2 * self.choice() - 1).abs().pow(power)).mean()


def neighbours(fixed: FixedScales, weight: Tensor) -> tuple[Tensor, Tensor]:
    """Return for each weight the nearest value of the format, and the nearest one on the other side of the weight.

    The second is found with the format's rounding alone: a point moves away from the first value, twice as far in
    each step, and the first other value that it is rounded to is the neighbour. If there is none, both are equal.
    """
    near = fixed.rounded(weight, fixed.scales)
    distance = weight - near
    other = near.clone()
    for _ in range(24):
        distance = 2 * distance
        found = fixed.rounded(near + distance, fixed.scales)
        other = torch.where(other == near, found, other)
    return near, other
