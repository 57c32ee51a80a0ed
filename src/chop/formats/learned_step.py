"""Rounding with a learned step, and its gradient."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from chop.formats.granularity import SMALLEST_SCALE


def positive(step: Tensor) -> Tensor:
    """Return the value of a learned step that is used: its magnitude, not 0."""
    return step.abs().clamp(min=SMALLEST_SCALE)


class _LearnedStep(torch.autograd.Function):
    """Learned step size quantisation (Esser et al., ICLR 2020)."""

    @staticmethod
    def forward(
        ctx: torch.autograd.function.FunctionCtx,
        x: Tensor,
        step: Tensor,
        quantize: Callable[[Tensor, Tensor], Tensor],
        limits: tuple[float, float],
    ) -> Tensor:
        ctx.save_for_backward(x, step)
        ctx.limits = limits  # type: ignore[attr-defined]
        return quantize(x, step.detach())

    @staticmethod
    def backward(ctx: torch.autograd.function.FunctionCtx, gradient: Tensor) -> tuple[Tensor, Tensor, None, None]:
        x, step = ctx.saved_tensors  # type: ignore[attr-defined]
        low, high = ctx.limits  # type: ignore[attr-defined]
        scaled = x / positive(step)
        inside = (scaled >= low) & (scaled <= high)
        slope = torch.where(inside, scaled.round() - scaled, scaled.clamp(low, high))
        share = 1 / math.sqrt(x.numel() * max(high, 1.0))
        signs = torch.where(step < 0, -1.0, 1.0)  # a step below 0 is used by its magnitude
        return gradient * inside, (gradient * slope).sum().mul(share).reshape(step.shape) * signs, None, None


# `Function.apply` is untyped.
learned_step: Callable[[Tensor, Tensor, Callable[[Tensor, Tensor], Tensor], tuple[float, float]], Tensor] = (
    _LearnedStep.apply
)
