"""Floating point without rounding."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from chop.formats.base import Encoded, Format, Scales, check_range, param, register_format
from chop.formats.bits import refuse_other_numbers


@register_format("float")
@dataclass(frozen=True)
class Float(Format):
    """PyTorch's floating point, without rounding: the format of every tensor before it is quantised."""

    floating_point = True
    rounds = False

    width: int = param(32, help="bits per element that cost passes count")

    def __post_init__(self) -> None:
        check_range("width", self.width, 1, 64)

    def quantize(self, x: Tensor) -> Tensor:
        return x

    def __call__(self, x: Tensor, scale: Tensor | None = None) -> Tensor:
        return x

    def encode(self, x: Tensor) -> Encoded:
        refuse_other_numbers(x.dtype)
        return x.float().view(torch.int32).long(), ()

    def decode(self, codes: Tensor, scales: Scales = ()) -> Tensor:
        return codes.to(torch.int32).view(torch.float32)
