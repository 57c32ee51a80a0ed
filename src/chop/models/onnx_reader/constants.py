"""Constants of an ONNX file, and the quantisers that they passed."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from chop.formats import Format
from chop.formats.fp8 import FP8
from chop.formats.integer import Integer
from chop.formats.minifloat import OnGrid
from chop.formats.minifloat_ieee import MinifloatIEEE
from chop.formats.rounding import Rounding

ROUNDINGS: dict[str, Rounding] = {
    "ROUND": "nearest_even",
    "HALF_EVEN": "nearest_even",
    "HALF_UP": "nearest_away",
    "FLOOR": "floor",
    "DOWN": "towards_zero",
    "ROUND_TO_ZERO": "towards_zero",
}


@dataclass(frozen=True, eq=False)
class Quantization:
    """A number format, and the scale of the file if it is not part of the format."""

    format: Format
    scale: Tensor | None = None
    """A number, or a tensor that broadcasts against the values."""

    def transposed(self, order: list[int]) -> Quantization:
        """Return the quantisation of a tensor whose dimensions are permuted."""
        if self.scale is None or self.scale.dim() < 2:
            return self
        return replace(self, scale=self.scale.permute(order))

    def reshaped(self) -> Quantization:
        """Return the quantisation of a tensor in another shape, for which only one scale has a meaning."""
        if self.scale is not None and self.scale.numel() > 1:
            raise ValueError("a tensor with several scales is reshaped")
        return self


@dataclass(frozen=True, eq=False)
class Constant:
    """A constant of the file as real numbers, and how they were quantised."""

    value: Tensor
    quantization: Quantization | None = None
    limits: tuple[int, int] | None = None
    """The smallest and the largest integer, if they are narrower than the type."""


def integer_quantization(width: int, is_signed: bool, scale: Tensor, rounding: Rounding) -> Quantization:
    """Return fixed point if the scale is a power of two, else integers with the scale of the file."""
    if not bool((scale > 0).all()):
        raise ValueError("a scale is not positive")
    if scale.numel() == 1:
        mantissa, exponent = math.frexp(float(scale))
        if mantissa == 0.5 and -96 <= 1 - exponent <= 126:
            return Quantization(Integer(width, 1 - exponent, is_signed, rounding=rounding))
        number_format = Integer(width, is_signed=is_signed, scale="float", rounding=rounding)
        return Quantization(number_format, scale.reshape(()).float())
    number_format = Integer(
        width, is_signed=is_signed, scale="float", granularity="channel", channel_dim=0, rounding=rounding
    )
    return Quantization(number_format, scale.float())


def float_quantization(
    exponent_width: int, mantissa_width: int, bias: int, largest: float, rounding: Rounding
) -> Quantization:
    """Return the format of a FloatQuant node with a scale of 1."""
    candidates: list[OnGrid] = [FP8("e4m3", rounding=rounding), FP8("e5m2", rounding=rounding)]
    width = 1 + exponent_width + mantissa_width
    candidates.append(MinifloatIEEE(width, exponent_width, bias, rounding=rounding))
    for candidate in candidates:
        grid = candidate.grid
        if (grid.mantissa, grid.min_exponent, grid.largest) == (mantissa_width, 1 - bias, largest):
            return Quantization(candidate)
    raise ValueError(
        f"no format has {exponent_width} exponent bits, {mantissa_width} mantissa bits and ends at {largest:g}"
    )


def broadcast_scale(scale: Tensor, ndim: int, axis: int, block_size: int, shape: torch.Size) -> Tensor:
    """Return the scales of QuantizeLinear in a shape that broadcasts against the tensor."""
    if scale.numel() == 1 and scale.dim() <= 1:
        return scale.reshape(())
    axis %= ndim
    if block_size:
        return scale.repeat_interleave(block_size, axis).narrow(axis, 0, shape[axis])
    if scale.dim() == 1:
        return scale.reshape([-1 if d == axis else 1 for d in range(ndim)])
    return scale
