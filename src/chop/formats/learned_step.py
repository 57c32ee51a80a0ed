"""Rounding with learned steps, and its gradient."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from chop.formats.granularity import SMALLEST_SCALE
from chop.formats.kernels.run import is_transformed
from chop.formats.straight_through import by_sample, check_randomness

if TYPE_CHECKING:
    from chop.formats.integer import Integer


def positive(step: Tensor) -> Tensor:
    """Return the value of a learned step that is used: its magnitude, not 0."""
    return step.abs().clamp(min=SMALLEST_SCALE)


def nearest_power_of_two(step: Tensor) -> Tensor:
    """Return the power of two with the nearest logarithm: 0.71 and 1.41 become 1."""
    return torch.exp2(positive(step).log2().round())


class _LearnedStep(torch.autograd.Function):
    """Learned step size quantisation (Esser et al., ICLR 2020), with a step per tensor or per channel.

    Derivatives of the derivatives take the slopes as constants: rounding is a straight line there.
    """

    @staticmethod
    def forward(x: Tensor, step: Tensor, used: Tensor, number_format: Integer) -> Tensor:
        return number_format.quantize(x, used)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        *tensors, ctx.number_format = inputs
        ctx.save_for_backward(*tensors)
        ctx.save_for_forward(*tensors)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, None, None]:
        x, step, used = ctx.saved_tensors
        inside, slope = _slopes(x, step, used, ctx.number_format)
        of_step = _signed((gradient * slope).sum_to_size(step.shape), x, step, ctx.number_format)
        return gradient * inside, of_step.to(step.dtype), None, None

    @staticmethod
    def jvp(ctx: Any, of_x: Tensor | None, of_step: Tensor | None, *others: None) -> Tensor:
        x, step, used = ctx.saved_tensors
        inside, slope = _slopes(x, step, used, ctx.number_format)
        tangent = torch.zeros_like(x) if of_x is None else of_x * inside
        if of_step is not None:
            tangent = tangent + _signed(of_step, x, step, ctx.number_format) * slope
        return tangent.to(x.dtype)

    @staticmethod
    def vmap(
        info: Any, in_dims: tuple[int | None, ...], x: Tensor, step: Tensor, used: Tensor, number_format: Integer
    ) -> tuple[Tensor, int]:
        check_randomness(number_format, info)
        return by_sample(
            lambda x, step, used: learned_step(x, step, used, number_format), info, in_dims, (x, step, used)
        )


def _slopes(x: Tensor, step: Tensor, used: Tensor, number_format: Integer) -> tuple[Tensor, Tensor]:
    """Return the derivatives by `x` and by the step that is used."""
    low, high = number_format.limits
    scaled = x.detach() / used.detach()
    inside = (scaled >= low) & (scaled <= high)
    return inside, torch.where(inside, scaled.round() - scaled, scaled.clamp(low, high))


def _signed(of_used: Tensor, x: Tensor, step: Tensor, number_format: Integer) -> Tensor:
    """Return the share of a derivative by the step that is learned; a step below 0 is used by its magnitude."""
    share = 1 / math.sqrt(x.numel() / step.numel() * max(number_format.limits[1], 1.0))
    return of_used * share * torch.ones_like(step).copysign(step.detach())


# `Function.apply` is untyped.
learned_step: Callable[[Tensor, Tensor, Tensor, Integer], Tensor] = _LearnedStep.apply
"""Round `x` with the step `used`, which follows from the learned `step`; the gradient goes to both."""


def step_of_activation(step: Tensor, x: Tensor) -> Tensor:
    """Return a learned step whose gradient is scaled by the number of features of a row, without the batch.

    LSQ divides the gradient by the square root of the number of weights, or of the features of a layer.
    """
    is_learned = (step.requires_grad and torch.is_grad_enabled()) or is_transformed(step)
    if x.dim() < 2 or not is_learned:
        return step
    return step + (math.sqrt(max(1, len(x))) - 1) * (step - step.detach())  # adds 0, which has a derivative
