"""The 8-bit floats of the OCP standard."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor

from chop.formats.kernels.families import round_with_scale
from chop.formats.parts.base import Encoded, Scales, param, register_format
from chop.formats.parts.bits import finite_magnitude, is_wide, working
from chop.formats.parts.granularity import (
    SMALLEST_SCALE,
    group_indices,
    largest_of_each,
    num_scales,
    real_scale,
    round_by_loop,
    rows_have_own_scales,
    scale_covering,
)
from chop.formats.parts.grid import ELEMENTS, Grid, OnGrid
from chop.formats.parts.rounding import round_quotients, without_overflow


@register_format("fp8")
@dataclass(frozen=True)
class FP8(OnGrid):
    """OCP 8-bit floating point, E4M3 or E5M2, saturating; or with a scale from data."""

    floating_point = True

    element: Literal["e4m3", "e5m2"] = param("e4m3", search=("e4m3", "e5m2"), help="exponent and mantissa bits")
    scale: Literal["none", "float"] = param(
        "none", kw_only=True, help="float: a scale that maps the largest magnitude to the largest number"
    )
    granularity: Literal["tensor", "channel", "row"] = param(
        "tensor", kw_only=True, help="what shares a scale: the tensor, an output channel, or a row (a token)"
    )
    channel_dim: int | None = param(
        None, operand_dim="channel_dim", kw_only=True, help="dimension of the channels; None: that of the operand"
    )

    def __post_init__(self) -> None:
        if self.scale == "none" and self.granularity != "tensor":
            raise ValueError(f"granularity '{self.granularity}' needs scale = \"float\"")

    @property
    def width(self) -> int:
        return 8

    def scale_bits(self, shape: Sequence[int]) -> int:
        return 32 * num_scales(shape, self.granularity, self.channel_dim)

    @property
    def grid(self) -> Grid:
        return ELEMENTS[self.element]

    @property
    def values_depend_on_data(self) -> bool:
        return self.scale == "float"

    def rounds_rows_independently(self, x: Tensor) -> bool:
        return self.scale == "none" or rows_have_own_scales(x, self.granularity, self.channel_dim)

    def scale_for(self, largest: float) -> float | None:
        if self.scale == "none" or self.granularity != "tensor":
            return None
        return max(largest / self.grid.largest, SMALLEST_SCALE)

    @property
    def requantize_tolerance(self) -> float:
        return 0.0 if self.scale == "none" else 2**-21  # the scale is computed from the maximum

    def contains(self, x: Tensor) -> Tensor:
        return self.same(replace(self, rounding="nearest_even").quantize(x), x)

    def quantize(self, x: Tensor, scale: Tensor | None = None) -> Tensor:
        if self.scale == "none" or x.numel() == 0:
            return super().quantize(x)
        fast = self._quantize_by_loop(x, scale)
        if fast is not None:
            return fast
        elements, used = self._scaled(x, scale)
        return elements.mul_(used).to(x.dtype)

    def scale_groups(self, x: Tensor) -> Tensor | None:
        return None if self.scale == "none" else group_indices(x, self.granularity, self.channel_dim)

    def element_scales(self, x: Tensor) -> Tensor:
        return self._scaled(x, None)[1].expand(x.shape)

    def quantize_with(self, x: Tensor, scales: Tensor) -> Tensor:
        return self._scaled(x, scales)[0].mul_(scales).to(x.dtype)

    def _quantize_by_loop(self, x: Tensor, scale: Tensor | None) -> Tensor | None:
        if self.rounding not in ("nearest_even", "nearest_away"):
            return None
        element = self.grid.in_loop(self.rounding)
        if scale is not None:
            return round_with_scale(x, scale, element)
        return round_by_loop(x, self.granularity, self.channel_dim, real_scale(self.grid.largest), element)

    def integers(self, x: Tensor, scale: Tensor | None = None) -> tuple[Tensor, Tensor]:
        if self.scale == "none" or x.numel() == 0:
            return super().integers(x)
        elements, used = self._scaled(x, scale)
        significands, step = self.grid.integers(elements)
        return significands, step * used

    def encode(self, x: Tensor) -> Encoded:
        if self.scale == "none":
            return super().encode(x)
        if x.numel() == 0:
            return x.long(), (torch.ones((), dtype=working(x).dtype, device=x.device),)
        elements, scale = self._scaled(x, None)
        return self.grid.encode(elements), (scale,)

    def decode(self, codes: Tensor, scales: Scales = ()) -> Tensor:
        return self.grid.decode(codes, scales[0].dtype) * scales[0] if scales else super().decode(codes)

    def _scaled(self, x: Tensor, scale: Tensor | None) -> tuple[Tensor, Tensor]:
        """Return the elements before they are multiplied by their scales, and the scales."""
        values = working(x)
        if scale is None:
            largest = largest_of_each(finite_magnitude(values), self.granularity, self.channel_dim)
            scale = scale_covering(largest, self.grid.largest)
        elements = round_quotients(values.div(scale), self.rounding, self.grid.round_)
        if not is_wide(x.dtype):
            elements = without_overflow(
                elements, x.dtype, scale, lambda: self.grid.round_(values.div(scale), "towards_zero")
            )
        return elements, scale
