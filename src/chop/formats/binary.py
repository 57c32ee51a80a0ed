"""One bit: the sign."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from chop.formats.base import Format, param, register_format
from chop.formats.bits import finite_magnitude


@register_format("binary")
@dataclass(frozen=True)
class Binary(Format):
    """-s or +s (XNOR-Net): s is the mean magnitude, of each output channel for weights; 0 counts as positive."""

    scaling: bool = param(True, help="False keeps s = 1")
    stochastic: bool = param(False, help="+s with probability (x + 1) / 2, as in BinaryConnect")
    channel_dim: int | None = param(
        None, place="channel_dim", help="one s for each index of it; None: the operand's"
    )

    @property
    def width(self) -> int:
        return 1

    def quantize(self, x: Tensor) -> Tensor:
        signs = self._signs(x)
        return torch.where(x.isnan(), x, signs * self._scale(x)).to(x.dtype)

    def integers(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return self._signs(x).to(torch.int64), self._scale(x)

    def contains(self, x: Tensor) -> Tensor:
        magnitude = x.abs()
        if not self.scaling:
            return magnitude == 1
        dims = self._shared_dims(x)
        return magnitude == (magnitude.amax(dims, keepdim=True) if dims else magnitude)

    def _signs(self, x: Tensor) -> Tensor:
        threshold = torch.rand_like(x).mul_(2).sub_(1) if self.stochastic else 0.0
        return torch.where(x >= threshold, 1.0, -1.0).to(x.dtype)

    def _scale(self, x: Tensor) -> Tensor:
        if not self.scaling:
            return torch.ones((), dtype=x.dtype, device=x.device)
        dims = self._shared_dims(x)
        magnitude = finite_magnitude(x).double()
        return (magnitude.mean(dims, keepdim=True) if dims else magnitude).to(x.dtype)

    def _shared_dims(self, x: Tensor) -> tuple[int, ...]:
        """The dimensions over which one s is taken: all, or all but the channels of a matrix or more."""
        if self.channel_dim is None or x.dim() < 2:
            return tuple(range(x.dim()))
        return tuple(d for d in range(x.dim()) if d != self.channel_dim % x.dim())
