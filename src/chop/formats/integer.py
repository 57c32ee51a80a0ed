"""Fixed point, and integers with a scale."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Self

import torch
from torch import Tensor

from chop.formats.kernels.families import (
    Scale as LoopScale,
)
from chop.formats.kernels.families import (
    integer_element,
    round_blocks,
    round_fixed_point,
    round_with_scale,
)
from chop.formats.kernels.run import is_transformed
from chop.formats.parts.base import Encoded, Format, Scales, check_range, param, register_format
from chop.formats.parts.bits import (
    exact_power_of_two_below,
    finite_magnitude,
    is_wide,
    largest_of,
    refuse_nan,
    working,
)
from chop.formats.parts.blocks import Blocks, block_indices, divided_dim, num_blocks, shared_bits
from chop.formats.parts.gradients import learned_step, nearest_power_of_two, positive
from chop.formats.parts.granularity import (
    SMALLEST_SCALE,
    Granularity,
    group_indices,
    largest_of_each,
    num_scales,
    real_scale,
    round_by_loop,
    rows_have_own_scales,
    scale_covering,
)
from chop.formats.parts.rounding import Rounded, Rounding, round_, round_quotients, without_overflow

Scale = Literal["power_of_two", "float", "learned", "learned_power_of_two"]
_NUM_FIRST_STEPS = 25
"""The steps of which the best is where the learning of a step starts: 6 octaves, each in 4 parts."""


@register_format("integer")
@dataclass(frozen=True)
class Integer(Rounded, Format):
    """Fixed point: `width`-bit integers over 2**frac_width, saturating; or INT8, INT4 with a scale from data."""

    width: int = param(8, search=(2, 3, 4, 6, 8, 16), help="bits per element, sign included")
    frac_width: int | Literal["auto"] | None = param(
        None,
        follows="width",
        help="fraction bits, may be negative; None: half of the width; auto: chosen from data",
    )
    is_signed: bool = param(True, inherited=False, help="two's complement; False: from 0 upwards")
    scale: Scale = param(
        "power_of_two",
        kw_only=True,
        help="the step: 2**-frac_width; float: from the maximum; learned: by LSQ, also as a power of two",
    )
    granularity: Granularity = param(
        "tensor",
        kw_only=True,
        help="what shares a step: the tensor, an output channel, a row (a token), or a group of elements",
    )
    group_size: int = param(32, kw_only=True, help="elements per group")
    channel_dim: int | None = param(
        None, operand_dim="channel_dim", kw_only=True, help="dimension of the channels; None: that of the operand"
    )
    block_dim: int | None = param(
        None,
        operand_dim="reduce_dim",
        kw_only=True,
        help="dimension along which groups run; None: the one that the op sums over",
    )

    def __post_init__(self) -> None:
        check_range("width", self.width, 1, 32)
        check_range("group_size", self.group_size, 1, 2**31)
        if self.has_learned_scale and self.granularity not in ("tensor", "channel"):
            raise ValueError(f"a learned scale needs granularity 'tensor' or 'channel', got '{self.granularity}'")
        if self.frac_width is None:
            object.__setattr__(self, "frac_width", self.width // 2)
        # Outside these limits, 2**frac_width or the range does not fit float32.
        check_range("frac_width", self._fraction, -96, 126)
        object.__setattr__(self, "_low", -(2.0 ** (self.width - 1)) if self.is_signed else 0.0)
        object.__setattr__(self, "_high", _float32_at_most(2 ** (self.width - self.is_signed) - 1))
        object.__setattr__(self, "_factor", 2.0**self._fraction)
        object.__setattr__(self, "is_fixed_point", self.scale == "power_of_two" and self.granularity == "tensor")

    @property
    def precision(self) -> list[int | float]:
        return [self.width, self._fraction] if self.is_fixed_point else [self.width]

    @property
    def settings(self) -> dict[str, Any]:
        is_shown = self.granularity == "group" and self.group_size != 32
        return super().settings | ({"group_size": self.group_size} if is_shown else {})

    @property
    def values_depend_on_data(self) -> bool:
        return not self.is_fixed_point

    def rounds_rows_independently(self, x: Tensor) -> bool:
        return self.is_fixed_point or rows_have_own_scales(x, self.granularity, self.channel_dim)

    @property
    def has_learned_scale(self) -> bool:
        return self.scale in ("learned", "learned_power_of_two")

    @property
    def has_power_of_two_scale(self) -> bool:
        """Whether all steps are powers of two."""
        return self.scale in ("power_of_two", "learned_power_of_two")

    @property
    def needs_fit(self) -> bool:
        return self.frac_width == "auto"

    def fitted(self, largest: float) -> Self:
        """Return the format with the most fraction bits that cover magnitudes up to `largest`."""
        if not self.is_fixed_point:
            return self
        # At least 1: a format with 1 bit has no positive value.
        room = max(self._high, 1.0) / largest if largest > 0 else 2.0**self.width
        return replace(self, frac_width=max(-96, min(126, math.floor(math.log2(room)))))

    def scale_for(self, largest: float) -> float | None:
        if self.scale == "power_of_two" or self.granularity != "tensor":
            return None
        return max(largest / max(self._high, 1.0), SMALLEST_SCALE)

    @property
    def bits(self) -> float:
        """The width, plus the share of a group's scale."""
        return self.width + (
            shared_bits(self._scale_width, self.group_size) if self.granularity == "group" else 0.0
        )

    def scale_bits(self, shape: Sequence[int]) -> int:
        if self.granularity == "group":
            return self._scale_width * num_blocks(shape, self.group_size, self.block_dim)
        return self._scale_width * num_scales(shape, self.granularity, self.channel_dim)

    @property
    def _scale_width(self) -> int:
        """Bits of a scale: an 8-bit exponent or a float32."""
        return 8 if self.has_power_of_two_scale else 32

    def quantize(self, x: Tensor, scale: Tensor | None = None) -> Tensor:
        if scale is None and self.is_fixed_point:
            fast = round_fixed_point(x, self.rounding, self._factor, self._low, self._high)
            if fast is not None:
                return fast
            y = self._fixed_point_integers(x).mul_(1 / self._factor)
            return y if y.dtype is x.dtype else y.to(x.dtype)
        if x.numel() == 0:
            return x.clone()
        fast = self._quantize_by_loop(x, scale)
        if fast is not None:
            return fast
        if scale is None and self.granularity == "group":
            blocks, integers, step = self._groups(x)
            return blocks.join(integers.mul_(step), like=x)
        integers, step = self._scaled_integers(x, scale)
        return integers.mul_(step).to(x.dtype)

    def _quantize_by_loop(self, x: Tensor, scale: Tensor | None) -> Tensor | None:
        """Return `x` rounded with a step from data, or a given one, by a compiled loop."""
        is_power = self.has_power_of_two_scale
        if not is_power and self.rounding not in ("nearest_even", "nearest_away"):
            return None  # numbers divided by a step need `round_quotients`
        if scale is not None:
            element = integer_element(self.rounding, self._low, self._high)
            return round_with_scale(x, self.step_of(scale), element) if scale.numel() == 1 else None
        if not self.is_signed or self.width == 1 or x.dim() == 0:
            return None
        top = max(self._high, 1.0)
        step = real_scale(top)
        if is_power:
            step = LoopScale("power_above", step.parameters._replace(limit=self._largest_power(x.dtype)))
        element = integer_element(self.rounding, self._lowest_covered, self._high)
        if self.granularity == "group":
            return round_blocks(x, self.group_size, divided_dim(x.dim(), self.block_dim), step, element)
        return round_by_loop(x, self.granularity, self.channel_dim, step, element)

    def __call__(self, x: Tensor, scale: Tensor | None = None) -> Tensor:
        if scale is None:
            return super().__call__(x)
        learns = torch.is_grad_enabled() and (scale.requires_grad or x.requires_grad)
        if not learns and not is_transformed(x) and not is_transformed(scale):
            return self.quantize(x, scale)
        used = self.step_of(scale.detach()).to(scale.dtype)
        return learned_step(x, scale, used, self)

    @property
    def limits(self) -> tuple[float, float]:
        """The smallest and the largest integer."""
        return self._low, self._high

    def step_of(self, scale: Tensor) -> Tensor:
        return nearest_power_of_two(scale) if self.scale == "learned_power_of_two" else positive(scale)

    def scale_groups(self, x: Tensor) -> Tensor | None:
        if self.is_fixed_point or self.has_learned_scale:
            return None
        if self.granularity == "group":
            return block_indices(x, self.group_size, self.block_dim)
        return group_indices(x, self.granularity, self.channel_dim)

    def element_scales(self, x: Tensor) -> Tensor:
        if self.granularity == "group":
            blocks, _, step = self._groups(x)
            return blocks.join(step.expand_as(blocks.values), like=working(x))
        return self._scaled_integers(x, None)[1].expand(x.shape)

    def quantize_with(self, x: Tensor, scales: Tensor) -> Tensor:
        return self._rounded(working(x), scales, x.dtype, self._lowest_covered).mul_(scales).to(x.dtype)

    def initial_scale(self, x: Tensor) -> Tensor:
        """Return the step, per tensor or channel, that rounds `x` with the least squared error."""
        values = self._covered(working(x))
        values = values.where(values.isfinite(), 0.0)
        largest = largest_of_each(values.abs(), self.granularity, self.channel_dim) if x.numel() else x.new_ones(())
        most = scale_covering(largest, max(self._high, 1.0))
        best, least = most, torch.full_like(most, torch.inf)
        for i in range(_NUM_FIRST_STEPS):
            step = self.step_of(most * 2 ** (-i / 4))
            rounded = self._rounded(values, step, values.dtype, self._low).mul_(step)
            error = (rounded - values).square().sum_to_size(step.shape)
            best, least = torch.where(error < least, step, best), torch.minimum(error, least)
        return best.to(x.dtype)

    def integers(self, x: Tensor, scale: Tensor | None = None) -> tuple[Tensor, Tensor]:
        if scale is not None:
            refuse_nan(x)
            integers, step = self._scaled_integers(x, scale)
            return integers.long(), step
        codes, scales = self.encode(x)
        if not scales:
            return codes, torch.tensor(2.0**-self._fraction, dtype=working(x).dtype)
        if self.granularity != "group" or x.numel() == 0:
            return codes, scales[0]
        blocks = Blocks.of(working(x), self.group_size, self.block_dim)
        return codes, blocks.join(scales[0].expand_as(blocks.values), like=working(x))

    def encode(self, x: Tensor) -> Encoded:
        """Return the integers, and their steps in float32 or float64: narrower floats cannot hold the integers."""
        refuse_nan(x)
        if self.is_fixed_point:
            return self._fixed_point_integers(x).long(), ()
        if x.numel() == 0:
            return x.long(), (torch.ones((), dtype=working(x).dtype, device=x.device),)
        if self.granularity == "group":
            blocks, integers, step = self._groups(x)
            return blocks.join(integers, like=x.new_empty(x.shape, dtype=torch.int64)), (step,)
        integers, step = self._scaled_integers(x, None)
        return integers.long(), (step,)

    def decode(self, codes: Tensor, scales: Scales = ()) -> Tensor:
        if not scales:
            values = codes.double().mul(2.0**-self._fraction)
            return values.float() if self.width <= 24 else values  # float32 cannot hold longer integers
        if self.granularity != "group" or codes.numel() == 0:
            return codes * scales[0]
        blocks = Blocks.of(codes.to(scales[0].dtype), self.group_size, self.block_dim)
        return blocks.join(blocks.values * scales[0], like=codes.to(scales[0].dtype))

    def all_codes(self) -> Tensor:
        return torch.arange(int(self._low), 2 ** (self.width - self.is_signed))

    @property
    def requantize_tolerance(self) -> float:
        return 0.0 if self.has_power_of_two_scale else 2**-21  # the step is computed from the maximum

    def contains(self, x: Tensor) -> Tensor:
        return self.same(replace(self, rounding="nearest_even").quantize(x), x)

    def _fixed_point_integers(self, x: Tensor) -> Tensor:
        """Return x * 2**frac_width, rounded, in float32 or float64."""
        low, high = self._low, self._high
        if is_wide(x.dtype):
            scaled = x.mul(self._factor)  # one new buffer, then in place
        else:
            scaled = working(x).mul_(self._factor)
            top = float(math.floor(largest_of(x.dtype) * self._factor))
            low, high = max(low, -top), min(high, top)
        return round_(scaled, self.rounding).clamp_(low, high)

    def _groups(self, x: Tensor) -> tuple[Blocks, Tensor, Tensor]:
        """Return the groups of a tensor, their integers and their steps."""
        values = working(x)
        blocks = Blocks.of(values, self.group_size, self.block_dim)
        step = self._step(Blocks.of(self._covered(values), self.group_size, self.block_dim).largest())
        return blocks, self._rounded(blocks.values, step, x.dtype, self._lowest_covered), step

    def _scaled_integers(self, x: Tensor, scale: Tensor | None) -> tuple[Tensor, Tensor]:
        """Return the integers of a tensor and their steps: from the data, or a learned or calibrated `scale`."""
        values = working(x)
        if scale is not None:
            step = self.step_of(scale)
            return self._rounded(values, step, x.dtype, self._low), step
        magnitude = finite_magnitude(self._covered(values))
        step = self._step(largest_of_each(magnitude, self.granularity, self.channel_dim))
        return self._rounded(values, step, x.dtype, self._lowest_covered), step

    def _rounded(self, values: Tensor, step: Tensor, dtype: torch.dtype, low: float) -> Tensor:
        def rounded(rounding: Rounding) -> Tensor:
            round_to = round_ if self.has_power_of_two_scale else round_quotients
            return round_to(values.div(step), rounding).clamp_(low, self._high)

        integers = rounded(self.rounding)
        if is_wide(dtype):
            return integers
        return without_overflow(integers, dtype, step, lambda: rounded("towards_zero"))

    def _covered(self, values: Tensor) -> Tensor:
        """Return the values that the step must cover, without those of a sign that the format does not have."""
        if not self.is_signed:
            return values.clamp(min=0)
        return values if self.width > 1 else values.clamp(max=0)

    @property
    def _lowest_covered(self) -> float:
        """The lowest integer with a step from data, which covers magnitudes: -127 in 8 bits, not -128."""
        return -max(self._high, 1.0) if self.is_signed else 0.0

    def _step(self, largest: Tensor) -> Tensor:
        """Return the smallest step that covers the largest magnitude."""
        fits = scale_covering(largest, max(self._high, 1.0))
        if not self.has_power_of_two_scale:
            return fits
        power = exact_power_of_two_below(fits)
        step = power * (1 + (fits > power).to(power.dtype))
        return step.clamp_(max=self._largest_power(step.dtype))

    def _largest_power(self, dtype: torch.dtype) -> float:
        """Return the largest power of two whose products with all integers of the format are finite."""
        return math.ldexp(1.0, math.frexp(largest_of(dtype))[1] - max(self.width - self.is_signed, 1))

    @property
    def _fraction(self) -> int:
        return self.frac_width if isinstance(self.frac_width, int) else self.width // 2

    # Computed once, because every call needs them.
    _low = 0.0
    _high = 0.0
    _factor = 1.0
    is_fixed_point = True
    """Whether the step is 2**-frac_width, independently of the data."""


def _float32_at_most(integer: int) -> float:
    """Return the largest float32 up to `integer`: 2**31 - 1 itself would be rounded up, out of the range."""
    spare = max(integer.bit_length() - 24, 0)
    return math.ldexp(integer >> spare, spare)
