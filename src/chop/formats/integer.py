"""Fixed point, and integers with a scale."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal, Self

import torch
from torch import Tensor

from chop.formats.base import Encoded, Format, Scales, check_range, param, register_format
from chop.formats.bits import exact_power_of_two_below, finite_magnitude, working
from chop.formats.blocks import Blocks
from chop.formats.rounding import Rounded, round_

Scale = Literal["power_of_two", "float", "learned"]
Granularity = Literal["tensor", "channel", "group"]


@register_format("integer")
@dataclass(frozen=True)
class Integer(Rounded, Format):
    """Fixed point: an integer of `width` bits over 2**frac_width, saturating; or INT8, INT4 with a free scale."""

    width: int = param(8, search=(2, 3, 4, 6, 8, 16), help="bits of an element, sign included")
    frac_width: int | Literal["auto"] | None = param(
        4, help="bits behind the point, may be negative; None: half of the width; auto: chosen from data"
    )
    is_signed: bool = param(True, help="two's complement, or from 0 upwards")
    scale: Scale = param(
        "power_of_two", kw_only=True, help="the step: 2**-frac_width; float: from the maximum; learned: by LSQ"
    )
    granularity: Granularity = param(
        "tensor", kw_only=True, help="one step for the tensor, each channel or each group, from their maxima"
    )
    group_size: int = param(32, kw_only=True, help="elements a group")
    channel_dim: int | None = param(None, place="channel_dim", kw_only=True, help="None: the operand's")
    block_dim: int | None = param(None, place="reduce_dim", kw_only=True, help="groups run along it")

    def __post_init__(self) -> None:
        check_range("width", self.width, 1, 32)
        check_range("group_size", self.group_size, 1, 2**31)
        if self.frac_width is None:
            object.__setattr__(self, "frac_width", self.width // 2)
        # Beyond these, 2**frac_width or the range leaves float32.
        check_range("frac_width", self._fraction, -96, 126)
        low, high = self._limits()
        object.__setattr__(self, "_low", low)
        object.__setattr__(self, "_high", high)
        object.__setattr__(self, "_factor", 2.0**self._fraction)
        object.__setattr__(self, "is_fixed_point", self.scale == "power_of_two" and self.granularity == "tensor")

    @property
    def precision(self) -> list[int | float]:
        return [self.width, self._fraction] if self.is_fixed_point else [self.width]

    @property
    def is_local(self) -> bool:
        return self.is_fixed_point

    @property
    def has_own_scale(self) -> bool:
        return self.scale == "learned"

    @property
    def needs_fit(self) -> bool:
        return self.frac_width == "auto"

    def fitted(self, largest: float) -> Self:
        """The same with as many fraction bits as leave room for magnitudes up to `largest`."""
        if not self.is_fixed_point:
            return self
        room = self._high / largest if largest > 0 else 2.0**self.width
        return replace(self, frac_width=max(-96, min(126, math.floor(math.log2(room)))))

    def scale_for(self, largest: float) -> float | None:
        if self.scale != "float" or self.granularity != "tensor":
            return None
        return max(largest / max(self._high, 1.0), 2.0**-120)

    def quantize(self, x: Tensor, scale: Tensor | None = None) -> Tensor:
        if scale is not None or not self.is_fixed_point:
            return self._quantize_scaled(x, scale)
        # One fresh buffer, then in place: a third of the time of plain expressions.
        scaled = x.mul(self._factor) if x.dtype in _WIDE else x.float().mul_(self._factor)
        y = round_(scaled, self.rounding).clamp_(self._low, self._high).mul_(1 / self._factor)
        return y if y.dtype is x.dtype else y.to(x.dtype)

    def __call__(self, x: Tensor, scale: Tensor | None = None) -> Tensor:
        if scale is None:
            return super().__call__(x)
        learns = torch.is_grad_enabled() and (scale.requires_grad or x.requires_grad)
        return _learned_step(x, scale, self) if learns else self.quantize(x, scale)

    def initial_scale(self, x: Tensor) -> Tensor:
        """Where LSQ starts: twice the mean magnitude over the root of the largest integer."""
        start = 2 * finite_magnitude(working(x)).mean() / math.sqrt(max(self._high, 1))
        return start.clamp(min=2.0**-100).to(x.dtype)

    def integers(self, x: Tensor) -> tuple[Tensor, Tensor]:
        codes, scales = self.encode(x)
        return codes, scales[0] if scales else torch.tensor(2.0**-self._fraction, dtype=x.dtype)

    def encode(self, x: Tensor) -> Encoded:
        if self.is_fixed_point:
            return self.quantize(x).double().mul(2.0**self._fraction).long(), ()
        step = self._step(x)
        return self._rounded(x, step).long(), (step.to(x.dtype),)

    def decode(self, codes: Tensor, scales: Scales = ()) -> Tensor:
        return codes * scales[0] if scales else codes.double().mul(2.0**-self._fraction).float()

    def all_codes(self) -> Tensor:
        return torch.arange(int(self._low), 2 ** (self.width - self.is_signed))

    def contains(self, x: Tensor) -> Tensor:
        if not self.is_fixed_point:
            return (self.quantize(x) - x).abs() <= x.abs() * 2**-22
        integers = x.double() * 2.0**self._fraction
        return (integers == integers.round()) & (integers >= self._low) & (integers <= self._high)

    def _quantize_scaled(self, x: Tensor, scale: Tensor | None) -> Tensor:
        if x.numel() == 0:
            return x.clone()
        step = self._step(x) if scale is None else scale
        return self._rounded(x, step).mul_(step).to(x.dtype)

    def _rounded(self, x: Tensor, step: Tensor) -> Tensor:
        return round_(working(x).div(step), self.rounding).clamp_(self._low, self._high)

    def _step(self, x: Tensor) -> Tensor:
        """The step that just fits the largest magnitude, shaped to broadcast against `x`."""
        if x.numel() == 0:
            return torch.ones((), dtype=x.dtype, device=x.device)
        fits = self._largest(working(x)).div(max(self._high, 1.0)).clamp_(min=2.0**-120)
        if self.scale != "power_of_two":
            return fits
        power = exact_power_of_two_below(fits)
        return power * (1 + (fits > power).to(power.dtype))

    def _largest(self, x: Tensor) -> Tensor:
        match self.granularity:
            case "tensor":
                return finite_magnitude(x).amax()
            case "channel":
                channel = None if self.channel_dim is None or x.dim() < 2 else self.channel_dim % x.dim()
                dims = tuple(d for d in range(x.dim()) if d != channel)
                return finite_magnitude(x).amax(dims, keepdim=True) if dims else finite_magnitude(x)
            case "group":
                blocks = Blocks.of(x, self.group_size, self.block_dim)
                return blocks.join(blocks.largest().expand_as(blocks.values), like=x)

    @property
    def _fraction(self) -> int:
        return self.frac_width if isinstance(self.frac_width, int) else self.width // 2

    def _limits(self) -> tuple[float, float]:
        if self.is_signed:
            return -(2.0 ** (self.width - 1)), _float32_at_most(2 ** (self.width - 1) - 1)
        return 0.0, _float32_at_most(2**self.width - 1)

    # Worked out once: they are needed at every call.
    _low = 0.0
    _high = 0.0
    _factor = 1.0
    is_fixed_point = True
    """Whether the step is 2**-frac_width, whatever the data."""


class _LearnedStep(torch.autograd.Function):
    """Learned step size quantisation (Esser et al., ICLR 2020)."""

    @staticmethod
    def forward(ctx: torch.autograd.function.FunctionCtx, x: Tensor, step: Tensor, integer: Integer) -> Tensor:
        ctx.save_for_backward(x, step)
        ctx.integer = integer  # type: ignore[attr-defined]
        return integer.quantize(x, step.detach().abs().clamp(min=2.0**-120))

    @staticmethod
    def backward(ctx: torch.autograd.function.FunctionCtx, gradient: Tensor) -> tuple[Tensor, Tensor, None]:
        x, step = ctx.saved_tensors  # type: ignore[attr-defined]
        low, high = ctx.integer._low, ctx.integer._high  # type: ignore[attr-defined]
        scaled = x / step
        inside = (scaled >= low) & (scaled <= high)
        slope = torch.where(inside, scaled.round() - scaled, scaled.clamp(low, high))
        share = 1 / math.sqrt(x.numel() * max(high, 1.0))
        return gradient * inside, (gradient * slope).sum().mul(share).reshape(step.shape), None


# `Function.apply` has no types of its own.
_learned_step: Callable[[Tensor, Tensor, Integer], Tensor] = _LearnedStep.apply


_WIDE = (torch.float32, torch.float64)


def _float32_at_most(integer: int) -> float:
    """The largest float32 that is no larger: 2**31 - 1 itself would round up, out of the range."""
    spare = max(integer.bit_length() - 24, 0)
    return math.ldexp(integer >> spare, spare)
