"""The 16-bit floats that PyTorch has itself."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from chop.formats.base import Encoded, Format, Scales, register_format
from chop.formats.bits import working
from chop.formats.minifloat import Grid


class _Half(Format):
    """A dtype of PyTorch, saturating."""

    floating_point = True
    dtype: ClassVar[torch.dtype]

    @property
    def width(self) -> int:
        return 16

    def quantize(self, x: Tensor) -> Tensor:
        limit = torch.finfo(self.dtype).max
        return working(x).clamp(-limit, limit).to(self.dtype).to(x.dtype)

    def integers(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Significands, and for each the power of two that it counts in."""
        info = torch.finfo(self.dtype)
        grid = Grid(round(-math.log2(info.eps)), round(math.log2(info.smallest_normal)), info.max)
        return grid.integers(working(self.quantize(x)))

    def encode(self, x: Tensor) -> Encoded:
        return self.quantize(x).to(self.dtype).view(torch.int16).long() & 0xFFFF, ()

    def decode(self, codes: Tensor, scales: Scales = ()) -> Tensor:
        return codes.to(torch.int16).view(self.dtype).float()

    def all_codes(self) -> Tensor:
        codes = torch.arange(2**16)
        return codes[self.decode(codes).isfinite()]


@register_format("bfloat16")
@dataclass(frozen=True)
class BFloat16(_Half):
    """Eight exponent bits and seven mantissa bits, saturating."""

    dtype = torch.bfloat16


@register_format("float16")
@dataclass(frozen=True)
class Float16(_Half):
    """IEEE half precision, saturating."""

    dtype = torch.float16
