"""Rounding with learned steps, and its gradient."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from chop.formats.granularity import SMALLEST_SCALE


def positive(step: Tensor) -> Tensor:
    """Return the value of a learned step that is used: its magnitude, not 0."""
    return step.abs().clamp(min=SMALLEST_SCALE)


def nearest_power_of_two(step: Tensor) -> Tensor:
    """Return the power of two with the nearest logarithm: 0.71 and 1.41 become 1."""
    return torch.exp2(positive(step).log2().round())


class _LearnedStep(torch.autograd.Function):
    """Learned step size quantisation (Esser et al., ICLR 2020), with a step per tensor or per channel."""

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, step: Tensor, used: Tensor, quantize: Callable[[Tensor, Tensor], Tensor], limits: Any
    ) -> Tensor:
        ctx.save_for_backward(x, step, used)
        ctx.limits = limits
        return quantize(x, used)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, None, None, None]:
        x, step, used = ctx.saved_tensors
        low, high = ctx.limits
        scaled = x / used
        inside = (scaled >= low) & (scaled <= high)
        slope = torch.where(inside, scaled.round() - scaled, scaled.clamp(low, high))
        share = 1 / math.sqrt(x.numel() / step.numel() * max(high, 1.0))
        signs = torch.where(step < 0, -1.0, 1.0)  # a step below 0 is used by its magnitude
        summed = (gradient * slope).sum_to_size(step.shape)
        return gradient * inside, (summed * share * signs).to(step.dtype), None, None, None


class _ScaledGradient(torch.autograd.Function):
    """The identity, whose gradient is multiplied by a number."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, factor: float) -> Tensor:
        ctx.factor = factor
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return gradient * ctx.factor, None


# `Function.apply` is untyped.
learned_step: Callable[
    [Tensor, Tensor, Tensor, Callable[[Tensor, Tensor], Tensor], tuple[float, float]], Tensor
] = _LearnedStep.apply
"""Round `x` with the step `used`, which follows from the learned `step`; the gradient goes to both."""


_scaled_gradient: Callable[[Tensor, float], Tensor] = _ScaledGradient.apply


def step_of_activation(step: Tensor, x: Tensor) -> Tensor:
    """Return a learned step whose gradient is scaled by the number of features of a row, without the batch.

    LSQ divides the gradient by the square root of the number of weights, or of the features of a layer.
    """
    if not step.requires_grad or x.dim() < 2 or not torch.is_grad_enabled():
        return step
    return _scaled_gradient(step, math.sqrt(max(1, len(x))))
