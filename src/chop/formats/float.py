"""PyTorch's own floating point."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from chop.formats.base import Encoded, Format, Scales, param, register_format


@register_format("float")
@dataclass(frozen=True)
class Float(Format):
    """Numbers as PyTorch holds them: no rounding; what every tensor is before it is quantised."""

    floating_point = True

    width: int = param(32, help="bits that cost passes count for an element")

    def quantize(self, x: Tensor) -> Tensor:
        return x

    def __call__(self, x: Tensor, scale: Tensor | None = None) -> Tensor:
        return x

    def encode(self, x: Tensor) -> Encoded:
        return x.float().view(torch.int32).long(), ()

    def decode(self, codes: Tensor, scales: Scales = ()) -> Tensor:
        return codes.to(torch.int32).view(torch.float32)
