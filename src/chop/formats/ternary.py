"""Three values."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from chop.formats.base import Format, param, register_format
from chop.formats.bits import finite_magnitude


@register_format("ternary")
@dataclass(frozen=True)
class Ternary(Format):
    """-s, 0 or +s (Ternary Weight Networks): small values become 0, s is the mean magnitude of the rest."""

    scaling: bool = param(True, help="False keeps s = 1")
    threshold: float = param(0.7, search=(0.5, 0.7, 1.0), help="0 up to this share of the mean magnitude")

    def __post_init__(self) -> None:
        if not self.threshold >= 0:
            raise ValueError(f"threshold must be 0 or more, got {self.threshold}")

    @property
    def width(self) -> int:
        return 2

    def quantize(self, x: Tensor) -> Tensor:
        signs, scale = self._signs_and_scale(x)
        return torch.where(x.isnan(), x, signs * scale).to(x.dtype)

    def integers(self, x: Tensor) -> tuple[Tensor, Tensor]:
        signs, scale = self._signs_and_scale(x)
        return signs.to(torch.int64), scale

    def contains(self, x: Tensor) -> Tensor:
        magnitude = x.abs()
        if magnitude.numel() == 0:
            return magnitude == 0
        return (magnitude == 0) | (magnitude == (magnitude.amax() if self.scaling else 1))

    def _signs_and_scale(self, x: Tensor) -> tuple[Tensor, Tensor]:
        magnitude = finite_magnitude(x)
        kept = magnitude > self.threshold * magnitude.double().mean()
        signs = x.sign() * kept
        if not self.scaling:
            return signs, torch.ones((), dtype=x.dtype, device=x.device)
        total = (magnitude * kept).double().sum()
        return signs, (total / kept.sum().clamp(min=1)).to(x.dtype)
