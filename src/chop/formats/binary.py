"""One bit: the sign."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from chop.formats.kernels.families import round_to_signs
from chop.formats.parts.base import Encoded, Format, Scales, param, register_format
from chop.formats.parts.bits import (
    finite_magnitude,
    mean_of_numbers,
    refuse_nan,
    refuse_other_numbers,
    signs,
    with_nan_of,
    working,
)
from chop.formats.parts.granularity import group_indices, num_scales


@register_format("binary")
@dataclass(frozen=True)
class Binary(Format):
    """-s or +s (XNOR-Net): s is the mean magnitude, for weights per output channel; 0 counts as positive."""

    scaling: bool = param(True, help="whether s follows the data; False: s = 1")
    stochastic: bool = param(False, help="+s with probability (x + 1) / 2, as in BinaryConnect")
    channel_dim: int | None = param(
        None, operand_dim="channel_dim", help="dimension with one s per index; None: the channels of the operand"
    )

    @property
    def width(self) -> int:
        return 1

    def scale_bits(self, shape: Sequence[int]) -> int:
        return 32 * num_scales(shape, "channel", self.channel_dim) if self.scaling else 0

    @property
    def values_depend_on_data(self) -> bool:
        return self.scaling

    @property
    def is_repeatable(self) -> bool:
        return not self.stochastic

    @property
    def is_idempotent(self) -> bool:
        return not self.stochastic

    @property
    def requantize_tolerance(self) -> float:
        return 2**-20  # s is a mean of the data

    def quantize(self, x: Tensor) -> Tensor:
        fast = self._quantize_by_loop(x)
        if fast is not None:
            return fast
        values = working(x)
        return with_nan_of(self._signs(values).mul_(self._scale(values)), values).to(x.dtype)

    def _quantize_by_loop(self, x: Tensor) -> Tensor | None:
        if self.stochastic or len(self._shared_dims(x)) < x.dim():
            return None
        return round_to_signs(x, self.scaling)

    def scale_groups(self, x: Tensor) -> Tensor | None:
        return group_indices(x, "channel", self.channel_dim) if self.scaling else None

    def element_scales(self, x: Tensor) -> Tensor:
        return self._scale(working(x)).expand(x.shape)

    def quantize_with(self, x: Tensor, scales: Tensor) -> Tensor:
        return self._signs(working(x)).mul_(scales).to(x.dtype)

    def integers(self, x: Tensor) -> tuple[Tensor, Tensor]:
        values = working(x)
        refuse_nan(values)
        return self._signs(values).long(), self._scale(values)

    def encode(self, x: Tensor) -> Encoded:
        values = working(x)
        refuse_nan(values)
        return (self._signs(values) < 0).long(), (self._scale(values),)

    def decode(self, codes: Tensor, scales: Scales = ()) -> Tensor:
        return (1.0 - 2 * codes) * (scales[0] if scales else 1.0)

    def contains(self, x: Tensor) -> Tensor:
        refuse_other_numbers(x.dtype)
        magnitude = x.abs()
        dims = self._shared_dims(x)
        if not self.scaling or not dims or x.numel() == 0:
            return magnitude.isfinite() if self.scaling else magnitude == 1
        return magnitude == magnitude.where(magnitude.isfinite(), 0.0).amax(dims, keepdim=True)

    def _signs(self, x: Tensor) -> Tensor:
        return signs(x - torch.rand_like(x).mul_(2).sub_(1) if self.stochastic else x)

    def _scale(self, x: Tensor) -> Tensor:
        dims = self._shared_dims(x)
        if not self.scaling or x.numel() == 0:
            return torch.ones((), dtype=x.dtype, device=x.device)
        magnitude = finite_magnitude(x)
        return mean_of_numbers(magnitude, x, dims).to(x.dtype) if dims else magnitude

    def _shared_dims(self, x: Tensor) -> tuple[int, ...]:
        """Return the dimensions that share one s: all, or all but the channels if there are two or more."""
        if self.channel_dim is None or x.dim() < 2:
            return tuple(range(x.dim()))
        return tuple(d for d in range(x.dim()) if d != self.channel_dim % x.dim())
