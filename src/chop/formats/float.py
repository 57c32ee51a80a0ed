"""PyTorch's own floating point."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from chop.formats.base import Format, param, register_format


@register_format("float")
@dataclass(frozen=True)
class Float(Format):
    """Numbers as PyTorch holds them: no rounding; what every tensor is before it is quantised."""

    floating_point = True

    width: int = param(32, help="bits that cost passes count for an element")

    def quantize(self, x: Tensor) -> Tensor:
        return x

    def __call__(self, x: Tensor) -> Tensor:
        return x
