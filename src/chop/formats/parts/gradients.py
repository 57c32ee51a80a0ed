"""Gradients of rounding, under all transforms of torch: the straight-through rule, and learned steps."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from chop.formats.kernels.run import is_plain, is_transformed
from chop.formats.parts.bits import in_shape, refuse_other_numbers
from chop.formats.parts.granularity import SMALLEST_SCALE

if TYPE_CHECKING:
    from chop.formats.integer import Integer
    from chop.formats.parts.base import Format


def rounded(x: Tensor, number_format: Format, scale: Tensor | None) -> Tensor:
    """Return `x` rounded, with the derivative of the identity."""
    refuse_other_numbers(x.dtype)
    is_inside = is_transformed(x) or (scale is not None and is_transformed(scale))
    if not (torch.is_grad_enabled() and x.requires_grad):
        return (_transformable if is_inside else _quantize)(x, number_format, scale)
    if is_inside or not is_plain(x):
        return (_transformable if is_inside else _traceable)(x, number_format, scale)
    return with_gradient_of(x, _quantize(x.detach(), number_format, None if scale is None else scale.detach()))


def with_gradient_of(x: Tensor, values: Tensor) -> Tensor:
    """Return `values` with the gradient of `x`, outside of all transforms of torch, which need a function.

    Subclasses of tensors, such as those of distributed weights, hold more than what `data` replaces.
    """
    if not is_plain(x):
        return _passed(x, values)
    y = in_shape(x, x.shape)  # the identity, without a copy
    y.data = values
    return y


def by_sample(
    function: Callable[..., Tensor], info: Any, in_dims: Sequence[int | None], operands: Sequence[Tensor | None]
) -> tuple[Tensor, int]:
    """Return what a loop over the samples of `torch.func.vmap` gives: each has scales of its own."""
    if info.batch_size == 0:
        x, dim = operands[0], in_dims[0]
        assert x is not None, "the first operand is what is rounded"
        return (x.new_empty(0, *x.shape) if dim is None else x.movedim(dim, 0).clone()), 0
    samples = [
        function(
            *(
                operand if operand is None or dim is None else operand.select(dim, i)
                for operand, dim in zip(operands, in_dims, strict=False)
            )
        )
        for i in range(info.batch_size)
    ]
    return torch.stack(samples), 0


def check_randomness(number_format: Format, info: Any) -> None:
    """Raise an error if a format that rounds at random would not do so under `torch.func.vmap`."""
    if not number_format.is_repeatable and info.randomness != "different":
        raise ValueError(
            f"format '{number_format.name}' rounds at random: torch.func.vmap needs randomness='different' for it, "
            f"got '{info.randomness}'"
        )


class _Traceable(torch.autograd.Function):
    """What torch.compile can trace."""

    @staticmethod
    def forward(x: Tensor, number_format: Format, scale: Tensor | None) -> Tensor:
        return _quantize(x, number_format, scale)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        pass

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        return gradient, None, None


class _Passed(torch.autograd.Function):
    """Given values with the gradient of another tensor."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, values: Tensor) -> Tensor:
        return values.view_as(values)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return gradient, None


class _Transformable(_Traceable):
    """The same with rules for forward-mode derivatives and `vmap`."""

    @staticmethod
    def jvp(ctx: Any, tangent: Tensor, *others: None) -> Tensor:
        return tangent.clone()

    @staticmethod
    def vmap(
        info: Any, in_dims: tuple[int | None, ...], x: Tensor, number_format: Format, scale: Tensor | None
    ) -> tuple[Tensor, int]:
        check_randomness(number_format, info)
        if scale is None and in_dims[0] is not None and not number_format.values_depend_on_data:
            rows = x.movedim(in_dims[0], 0)
            if number_format.rounds_rows_independently(rows):
                return rounded(rows, number_format, None), 0
        dims = (in_dims[0], in_dims[2])
        return by_sample(lambda x, scale: rounded(x, number_format, scale), info, dims, (x, scale))


# `Function.apply` is untyped.
_traceable: Callable[[Tensor, Format, Tensor | None], Tensor] = _Traceable.apply
_passed: Callable[[Tensor, Tensor], Tensor] = _Passed.apply
_transformable: Callable[[Tensor, Format, Tensor | None], Tensor] = _Transformable.apply


def _quantize(x: Tensor, number_format: Format, scale: Tensor | None) -> Tensor:
    # Only formats with a `scale_for` or a learned scale are given one, and these take it.
    return number_format.quantize(x) if scale is None else number_format.quantize(x, scale)  # type: ignore[call-arg]


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
