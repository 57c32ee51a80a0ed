"""Floating point: without rounding, in half precision, and bfloat16."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from chop.formats.parts.base import Encoded, Format, Scales, check_range, param, register_format
from chop.formats.parts.bits import refuse_other_numbers
from chop.formats.parts.grid import Grid, OnGrid


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


class HalfPrecision(OnGrid):
    """A floating-point format of 16 bits; rounded explicitly instead of by a cast, which a compiler may remove."""

    floating_point = True
    numbers: ClassVar[Grid]

    @property
    def width(self) -> int:
        return 16

    @property
    def grid(self) -> Grid:
        return self.numbers


@register_format("float16")
@dataclass(frozen=True)
class Float16(HalfPrecision):
    """IEEE half precision: 5 exponent bits and 10 mantissa bits, saturating."""

    numbers = Grid(mantissa=10, min_exponent=-14, largest=65504.0)


@register_format("bfloat16")
@dataclass(frozen=True)
class BFloat16(HalfPrecision):
    """bfloat16: 8 exponent bits and 7 mantissa bits, saturating."""

    numbers = Grid(mantissa=7, min_exponent=-126, largest=255 * 2.0**120)
