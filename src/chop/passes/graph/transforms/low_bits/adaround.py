"""Learned rounding: whether each weight is rounded up or down (AdaRound)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from chop.ir import MaseGraph
from chop.passes.base import PassResult, register_pass
from chop.passes.graph.transforms.low_bits.layer_problem import LayerProblem, with_damping
from chop.passes.graph.transforms.low_bits.layers import CalibrationArgs, adjust_layers
from chop.passes.graph.transforms.low_bits.scales import FixedScales

_LOW, _HIGH = -0.1, 1.1
"""The range of the sigmoid before it is cut to 0..1."""


@dataclass(frozen=True)
class AdaRoundArgs(CalibrationArgs):
    """Arguments of `adaround`."""

    search_scales: bool = True
    """Whether the scale of each group is chosen for the least error, rather than from its largest weight."""
    iterations: int = 500
    """The steps of gradient descent per layer."""
    learning_rate: float = 0.05
    """The learning rate of Adam."""
    regularization: float = 1.0
    """The weight of the term that moves each choice to up or down, relative to the error of rounding to nearest."""
    damping: float | None = None
    """How strongly weights stay as they are while they make up for earlier layers, as in `gptq`."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.iterations < 1:
            raise ValueError(f"'iterations' must be at least 1, got {self.iterations}")


@register_pass("adaround", kind="transform")
def adaround_transform_pass(graph: MaseGraph, args: AdaRoundArgs) -> PassResult:
    """Learn for each weight whether it is rounded up or down, such that the layer's output has the least error.

    By gradient descent over all weights of a layer together (Nagel et al., ICML 2020); slower than `gptq`. Scales
    are fixed first. `info["layers"]` has the signal-to-noise ratio of each layer's output in dB, before and after.
    """
    return graph, adjust_layers(graph, args, "adaround", lambda problem: learn_rounding(problem, args))


def learn_rounding(problem: LayerProblem, args: AdaRoundArgs) -> Tensor:
    """Return the rounded weight of a layer."""
    damping = problem.damping(args.damping)
    wanted = problem.target(damping)
    fixed = problem.fixed_scales(args.search_scales, wanted)
    near, other = neighbours(fixed, wanted)
    if fixed.held is not None and fixed.reference is not None:
        held = fixed.rounded(fixed.reference, fixed.scales)
        near, other = torch.where(fixed.held, held, near), torch.where(fixed.held, held, other)
    gap = (other - near).double()
    products, target = with_damping(problem.hessian, damping), wanted.double() - near
    share = torch.where(gap == 0, 0.0, target / torch.where(gap == 0, 1.0, gap)).clamp(0.01, 0.99)
    logits = (((share - _LOW) / (_HIGH - _LOW)).logit()).requires_grad_()
    nearest = float(((target @ products) * target).sum())
    optimizer = torch.optim.Adam([logits], lr=args.learning_rate)
    for step in range(args.iterations):
        progress = step / args.iterations
        with torch.enable_grad():
            chosen = _rectified(logits)
            difference = gap * chosen - target
            loss = ((difference @ products) * difference).sum() / max(nearest, torch.finfo(gap.dtype).tiny)
            if progress > 0.2:
                power = 2 + 18 * 0.5 * (1 + math.cos(math.pi * (progress - 0.2) / 0.8))
                loss = loss + args.regularization * (1 - (2 * chosen - 1).abs().pow(power)).mean()
            optimizer.zero_grad()
            loss.backward()
        optimizer.step()
    return torch.where(_rectified(logits.detach()) > 0.5, other, near)


def neighbours(fixed: FixedScales, weight: Tensor) -> tuple[Tensor, Tensor]:
    """Return for each weight the nearest value of the format, and the nearest one on the other side of the weight.

    The second is found with the format's rounding alone: a point that moves away from the first value, twice as far
    in each step, is rounded to its neighbour before it gets past it. It equals the first if there is no other.
    """
    near = fixed.rounded(weight, fixed.scales)
    distance = weight - near
    other = near.clone()
    for _ in range(24):
        distance = 2 * distance
        found = fixed.rounded(near + distance, fixed.scales)
        other = torch.where(other == near, found, other)
    return near, other


def _rectified(logits: Tensor) -> Tensor:
    return (logits.sigmoid() * (_HIGH - _LOW) + _LOW).clamp(0, 1)
