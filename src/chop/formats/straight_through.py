"""The straight-through rule: rounding whose derivative is that of the identity, under all transforms of torch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from chop.formats.bits import in_shape, refuse_other_numbers
from chop.formats.kernels.run import is_plain, is_transformed

if TYPE_CHECKING:
    from chop.formats.base import Format


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
    """Return `values` with the gradient of `x`, outside of all transforms of torch.

    It takes a third of the time of a function with `setup_context`, which the transforms of torch.func need.
    """
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
_transformable: Callable[[Tensor, Format, Tensor | None], Tensor] = _Transformable.apply


def _quantize(x: Tensor, number_format: Format, scale: Tensor | None) -> Tensor:
    # Only formats with a `scale_for` or a learned scale are given one, and these take it.
    return number_format.quantize(x) if scale is None else number_format.quantize(x, scale)  # type: ignore[call-arg]
