"""Exact powers of two from the bits of a float, without log2, exp2 or frexp."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple, cast

import torch
from torch import Tensor


class _Layout(NamedTuple):
    integer: torch.dtype
    mantissa_width: int
    bias: int
    exponent_mask: int


_LAYOUTS = {
    torch.float32: _Layout(torch.int32, 23, 127, 0x7F800000),
    torch.float64: _Layout(torch.int64, 52, 1023, 0x7FF0000000000000),
}
LARGEST = torch.finfo(torch.float32).max


def working(x: Tensor) -> Tensor:
    """Return `x` in a dtype that this module supports: unchanged if float32 or float64, else float32.

    Infinities of other dtypes become their largest finite numbers.
    """
    if x.dtype in _LAYOUTS:
        return x
    refuse_other_numbers(x.dtype)
    top = torch.finfo(x.dtype).max
    return x.float().clamp_(-top, top)


def refuse_other_numbers(dtype: torch.dtype) -> None:
    """Raise an error for integers and complex numbers."""
    if not dtype.is_floating_point:
        remedy = "round x.real and x.imag" if dtype.is_complex else "convert it with x.float()"
        raise ValueError(f"formats round floating-point tensors, got {dtype}: {remedy}")


def is_wide(dtype: torch.dtype) -> bool:
    """Whether `working` leaves a dtype unchanged: float32 and float64."""
    return dtype in _LAYOUTS


def largest_of(dtype: torch.dtype) -> float:
    """Return the largest finite number of a dtype."""
    refuse_other_numbers(dtype)
    return torch.finfo(dtype).max


def refuse_nan(x: Tensor) -> None:
    """Raise an error for NaN, which has no code."""
    if bool(x.isnan().any()):
        raise ValueError("NaN cannot be encoded: every code of this format is a number")


def mantissa_width(dtype: torch.dtype) -> int:
    """Return the number of mantissa bits of a dtype."""
    return _LAYOUTS[dtype].mantissa_width


def power_of_two_below(x: Tensor) -> Tensor:
    """Return the largest power of two that is at most |x|; 0 for zeros and subnormals, inf for inf and NaN."""
    layout = _LAYOUTS[x.dtype]
    return (x.view(layout.integer) & layout.exponent_mask).view(x.dtype)


def floor_log2(magnitude: Tensor) -> Tensor:
    """Return floor(log2(magnitude)) as an integer, also for subnormals; for 0 it is below every exponent."""
    layout = _LAYOUTS[magnitude.dtype]
    lift = layout.mantissa_width + 1
    smallest_normal = 2.0 ** (1 - layout.bias)

    def exponent(normal: Tensor) -> Tensor:
        return (normal.view(layout.integer) >> layout.mantissa_width) - layout.bias

    lifted = exponent(magnitude * 2.0**lift) - lift
    return torch.where(magnitude < smallest_normal, lifted, exponent(magnitude))


def power_of_two(exponent: Tensor, dtype: torch.dtype) -> Tensor:
    """Return 2 ** exponent, exactly, down to the smallest subnormal of `dtype`."""
    layout = _LAYOUTS[dtype]

    def normal(part: Tensor) -> Tensor:
        return ((part + layout.bias) << layout.mantissa_width).to(layout.integer).view(dtype)

    half = exponent >> 1
    return normal(half) * normal(exponent - half)


def nearest_even_power_of_two(x: Tensor, *, odd_exponents_are_even: bool) -> Tensor:
    """Return the power of two nearest to |x|; ties go to the even exponent, or else to the odd one."""
    layout = _LAYOUTS[x.dtype]
    bits = x.view(layout.integer) & torch.iinfo(layout.integer).max
    last = (bits >> layout.mantissa_width).bitwise_and_(1)  # the bias is odd: 1 where the exponent is even
    tie = last if odd_exponents_are_even else last.neg_().add_(1)
    below_half = (1 << (layout.mantissa_width - 1)) - 1
    return bits.add_(tie).add_(below_half).bitwise_and_(layout.exponent_mask).view(x.dtype)


def exact_power_of_two_below(magnitude: Tensor) -> Tensor:
    """Return the largest power of two that is at most `magnitude`, also for subnormals; for small tensors."""
    layout = _LAYOUTS[magnitude.dtype]
    lift = 2.0 ** (layout.mantissa_width + 1)
    lifted = power_of_two_below(magnitude.clamp(max=1.0).mul_(lift)).mul_(1 / lift)
    return torch.maximum(power_of_two_below(magnitude), lifted)


def finite_magnitude(x: Tensor) -> Tensor:
    """Return |x| for a maximum: NaN counts as 0, what is beyond float32 as the largest float32."""
    magnitude = x.abs().nan_to_num_(nan=0.0, posinf=LARGEST)
    return magnitude if x.dtype is torch.float32 else magnitude.clamp_(max=LARGEST)


def mean_of_numbers(magnitude: Tensor, x: Tensor, dims: tuple[int, ...]) -> Tensor:
    """Return the mean of `finite_magnitude(x)` over some dimensions, in float64; NaN does not count."""
    total = sum_of_magnitudes(magnitude, dims)
    if torch.compiler.is_compiling() or x.device.type != "cpu" or bool(x.sum().isnan()):  # others would wait
        return total / x.isnan().logical_not_().sum(dims, keepdim=True).clamp_(min=1)
    return total / (x.numel() // total.numel())


def sum_of_magnitudes(magnitude: Tensor, dims: tuple[int, ...]) -> Tensor:
    """Return the sum over some dimensions in float64, of float32 numbers the same in any order.

    They are first rounded in units of 1 / `unit_factor`, so that no sum is rounded: not inside torch.compile, and
    not for numbers that float32 cannot multiply so.
    """
    if magnitude.dtype is torch.float32 and magnitude.numel() and not torch.compiler.is_compiling():
        top = magnitude.amax(dims, keepdim=True)
        factor = unit_factor(top, magnitude.numel() // top.numel())
        can_multiply = factor.isfinite().all()
        if magnitude.device.type != "cpu" or bool(can_multiply):  # other devices would wait for the answer
            in_units = (magnitude * factor).round_().sum(dims, keepdim=True, dtype=torch.float64) / factor.double()
            if magnitude.device.type == "cpu":
                return in_units
            return torch.where(can_multiply, in_units, magnitude.sum(dims, keepdim=True, dtype=torch.float64))
    return magnitude.sum(dims, keepdim=True, dtype=torch.float64)


def unit_factor(top: Tensor, count: int) -> Tensor:
    """Return the power of two by which `count` numbers up to `top` can be multiplied with sums below 2**53."""
    power = 2.0 ** (52 - math.ceil(math.log2(count)))
    return power / exact_power_of_two_below(top).where(top > 0, 1.0)


def signs(x: Tensor) -> Tensor:
    """Return -1 for negative numbers, +1 for all others, including -0."""
    layout = _LAYOUTS[x.dtype]
    width = torch.iinfo(layout.integer).bits
    one = layout.bias << layout.mantissa_width
    return x.add(0.0).view(layout.integer).bitwise_and_(-(1 << (width - 1))).bitwise_or_(one).view(x.dtype)


def with_nan_of(y: Tensor, x: Tensor) -> Tensor:
    """Set `y` to NaN where `x` is NaN, in place."""
    return y.add_(x.clamp(-LARGEST, LARGEST).mul_(0.0))


def in_shape(x: Tensor, shape: Sequence[int]) -> Tensor:
    """Return `x` in another shape, not as a view: in-place ops on one fail. Nothing else must use its memory."""
    return cast(Tensor, torch.ops.aten._unsafe_view.default(x, shape))
