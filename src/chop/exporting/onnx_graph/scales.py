"""Scales of activations in ONNX: constant, or computed from the values of the tensor, a channel, row or block."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from chop.exporting.onnx_graph.builder import Name, OnnxBuilder
from chop.exporting.onnx_graph.call import CannotFormatError, Ref
from chop.exporting.onnx_graph.data_types import DataType
from chop.formats import Format
from chop.formats.block_fp import BlockFP
from chop.formats.fp8 import FP8
from chop.formats.integer import Integer
from chop.formats.microscaling import MXFP, MXInt
from chop.formats.nvfp4 import NVFP4
from chop.formats.parts.blocks import BlockSize, divided_dim
from chop.formats.parts.granularity import scale_limits
from chop.formats.parts.grid import ELEMENTS


@dataclass(frozen=True)
class Blocking:
    """Blocks along a dimension: how many, and their size; the last one may be incomplete."""

    dim: int
    size: int
    length: int

    @property
    def count(self) -> int:
        return -(-self.length // self.size)


@dataclass(frozen=True)
class LinearScale:
    """The scales of a tensor, in the shape that QuantizeLinear takes."""

    scale: Name
    value: float | None = None
    """The scale, if it is one constant number."""
    covers: bool = False
    """Whether the scale was computed such that the largest magnitude fits."""
    attributes: tuple[tuple[str, int], ...] = ()
    broadcast: Name | None = None
    """The scales in a shape that broadcasts against the tensor; None: `scale` itself does."""
    blocking: Blocking | None = None
    divisor: Name | None = None
    """What QuantizeLinear divides by, if it is not the scale: scales of 0 are replaced."""
    zero: tuple[Name, ...] = ()
    """A zero point of 0, if it is written."""

    def quantize(self, builder: OnnxBuilder, x: Name, element: DataType) -> Name:
        """Return the elements of a tensor."""
        scale = self.scale if self.divisor is None else self.divisor
        output = {} if self.zero else {"output_dtype": int(element)}
        return builder.node("QuantizeLinear", x, scale, *self.zero, **output, **dict(self.attributes))

    def dequantize(self, builder: OnnxBuilder, q: Name) -> Name:
        """Return the numbers of elements."""
        return builder.node("DequantizeLinear", q, self.scale, *self.zero, **dict(self.attributes))

    def divide(self, builder: OnnxBuilder, x: Ref) -> Name:
        """Return a tensor divided by its scales; in blocks if scales belong to blocks."""
        if self.blocking is None:
            return builder.node("Div", x.name, self.broadcast or self.scale)
        scales = builder.node("Unsqueeze", self.scale, builder.integers(self.blocking.dim + 1))
        return builder.node("Div", in_blocks(builder, x, self.blocking), scales)

    def join(self, builder: OnnxBuilder, quotients: Name, x: Ref) -> Name:
        """Return what `divide` returned in the shape of the tensor."""
        if self.blocking is None:
            return quotients
        dim, padded = self.blocking.dim, self.blocking.count * self.blocking.size
        joined = builder.reshape(quotients, _around(x, dim, [padded]))
        if padded == self.blocking.length:
            return joined
        zero, end = builder.integers(0), builder.integers(self.blocking.length)
        return builder.node("Slice", joined, zero, end, builder.integers(dim))


def scaling_of(builder: OnnxBuilder, x: Ref, number_format: Format, scale: Tensor | None) -> LinearScale:
    """Return the scales of an activation; `scale` is a learned or calibrated one."""
    if scale is not None:
        return _constant(builder, number_format.step_of(scale))
    match number_format:
        case Integer() if number_format.is_fixed_point:
            value = math.ldexp(1.0, -int(number_format.precision[1]))
            return LinearScale(builder.constant(value), value)
        case FP8(scale="none"):
            return LinearScale(builder.constant(1.0), 1.0)
        case Integer() if number_format.granularity == "group":
            return _of_blocks(builder, x, number_format, number_format.group_size, number_format.block_dim)
        case Integer() | FP8():
            return _of_granularity(builder, x, number_format)
        case MXFP() | MXInt() | BlockFP() | NVFP4():
            return _of_blocks(builder, x, number_format, number_format.block_size, number_format.block_dim)
    raise CannotFormatError("for which ONNX has no type")


def _constant(builder: OnnxBuilder, step: Tensor) -> LinearScale:
    """Return a constant scale of a tensor, or one per channel."""
    if step.numel() == 1:
        return LinearScale(builder.constant(step.item()), step.item())
    (axis,) = (dim for dim, size in enumerate(step.shape) if size > 1)
    shared = builder.constant(step.detach().float())
    scale = builder.constant(step.detach().float().flatten())
    return LinearScale(scale, attributes=(("axis", axis),), broadcast=shared)


def _of_granularity(builder: OnnxBuilder, x: Ref, number_format: Integer | FP8) -> LinearScale:
    rank = len(x.shape)
    magnitude = _covered(builder, x, number_format)
    channel = number_format.channel_dim
    if number_format.granularity == "row" and rank > 1:
        largest = builder.node("ReduceMax", magnitude, builder.integers(rank - 1), keepdims=1)
        size = x.shape[rank - 1]
        if size is None:
            raise CannotFormatError("whose rows have a length that depends on the batch")
        scale = _step(builder, largest, number_format)
        return LinearScale(scale, covers=True, attributes=(("axis", rank - 1), ("block_size", size)))
    if number_format.granularity == "channel" and channel is not None and rank > 1:
        axis = channel % rank
        others = builder.integers(*(d for d in range(rank) if d != axis))
        scale = _step(builder, builder.node("ReduceMax", magnitude, others, keepdims=0), number_format)
        shape = [-1 if d == axis else 1 for d in range(rank)]
        return LinearScale(
            scale, covers=True, attributes=(("axis", axis),), broadcast=builder.reshape(scale, shape)
        )
    return LinearScale(_step(builder, builder.node("ReduceMax", magnitude, keepdims=0), number_format), covers=True)


def _covered(builder: OnnxBuilder, x: Ref, number_format: Format) -> Name:
    """Return the magnitudes that a scale must cover; those of a sign that the format does not have are 0."""
    if isinstance(number_format, Integer) and not number_format.is_signed:
        return builder.node("Relu", x.name)
    return builder.node("Abs", x.name)


def _of_blocks(
    builder: OnnxBuilder, x: Ref, number_format: Format, block_size: BlockSize, block_dim: int | None
) -> LinearScale:
    if not isinstance(block_size, int):
        raise CannotFormatError("whose blocks extend over several dimensions, which ONNX does not have")
    dim = divided_dim(len(x.shape), block_dim)
    length = x.shape[dim]
    if length is None or any(n is None for n in x.shape[dim + 1 :]):
        raise CannotFormatError("whose blocks run along the batch, which has no fixed size")
    blocking = Blocking(dim, min(block_size, length), length)
    if len(x.shape) == 1 and blocking.count == 1:  # a vector that is a single block
        largest = builder.node("ReduceMax", _covered(builder, x, number_format), keepdims=0)
        if isinstance(number_format, NVFP4):
            return _nvfp4(builder, largest, (), None)
        return LinearScale(_step(builder, largest, number_format), covers=isinstance(number_format, Integer))
    magnitude = Ref(_covered(builder, x, number_format), x.shape, x.dtype)
    blocks = in_blocks(builder, magnitude, blocking)
    largest = builder.node("ReduceMax", blocks, builder.integers(dim + 1), keepdims=0)
    attributes = (("axis", dim), ("block_size", blocking.size))
    if isinstance(number_format, NVFP4):
        return _nvfp4(builder, largest, attributes, blocking)
    scale = _step(builder, largest, number_format)
    covers = isinstance(number_format, Integer)
    return LinearScale(scale, covers=covers, attributes=attributes, blocking=blocking)


def in_blocks(builder: OnnxBuilder, x: Ref, blocking: Blocking) -> Name:
    """Return a tensor in blocks: a dimension of 40 in blocks of 16 becomes two of 3 and 16, padded with zeros."""
    name, missing = x.name, blocking.count * blocking.size - blocking.length
    if missing:
        pads = [0] * (2 * len(x.shape))
        pads[len(x.shape) + blocking.dim] = missing
        name = builder.node("Pad", name, builder.integers(*pads))
    return builder.reshape(name, _around(x, blocking.dim, [blocking.count, blocking.size]))


def _around(x: Ref, dim: int, sizes: list[int]) -> list[int]:
    """Return a shape for Reshape with one dimension replaced; sizes before it may depend on the batch."""
    after = [int(n) for n in x.shape[dim + 1 :] if n is not None]
    return [0] * dim + sizes + after


def _step(builder: OnnxBuilder, largest: Name, number_format: Format) -> Name:
    """Return the scale for each largest magnitude, as the format computes it."""
    match number_format:
        case Integer():
            top = float(max(2 ** (number_format.width - number_format.is_signed) - 1, 1))
            fits = _clipped(builder, builder.node("Div", largest, builder.constant(top)), *scale_limits(top))
            return fits if not number_format.has_power_of_two_scale else _power_of_two(builder, fits, "up")
        case FP8():
            top = number_format.grid.largest
            return _clipped(builder, builder.node("Div", largest, builder.constant(top)), *scale_limits(top))
        case BlockFP() | MXFP() | MXInt():
            return _power_scale(builder, largest, number_format)
    raise AssertionError(f"no scale of {number_format} follows from the data")


def _power_scale(builder: OnnxBuilder, largest: Name, number_format: BlockFP | MXFP | MXInt) -> Name:
    """Return the scales of blocks, as `block_scale` of the format describes them."""
    rule = number_format.block_scale
    power = _power_of_two(builder, largest, "down")
    is_microscaled = not isinstance(number_format, BlockFP)
    scale = builder.node("Mul", power, builder.constant(rule.factor)) if is_microscaled else power
    if rule.above < math.inf:
        bound = builder.node("Mul", power, builder.constant(rule.above))
        exceeds = builder.node("GreaterOrEqual" if rule.inclusive else "Greater", largest, bound)
        factor = builder.node("Where", exceeds, builder.constant(2.0), builder.constant(1.0))
        scale = builder.node("Mul", scale, factor)
    scale = _clipped(builder, scale, rule.low, rule.high)
    return scale if isinstance(number_format, MXFP) else builder.node("Mul", scale, builder.constant(rule.unit))


def _nvfp4(builder: OnnxBuilder, largest: Name, attributes: Any, blocking: Blocking | None) -> LinearScale:
    """Return scales of E4M3 per block, times one of the tensor."""
    element, scale = ELEMENTS["e2m1"].largest, ELEMENTS["e4m3"].largest
    top = element * scale
    tensor = builder.node("Div", builder.node("ReduceMax", largest, keepdims=0), builder.constant(top))
    tensor = _clipped(builder, tensor, *scale_limits(top))
    share = builder.node("Div", builder.node("Div", largest, builder.constant(element)), tensor)
    rounded = builder.cast(builder.cast(share, DataType.FLOAT8E4M3FN), DataType.FLOAT)
    scales = builder.node("Mul", rounded, tensor)
    divisor = builder.node("Max", scales, builder.constant(2.0**-149))
    return LinearScale(scales, attributes=attributes, blocking=blocking, divisor=divisor)


def _clipped(builder: OnnxBuilder, x: Name, low: float, high: float) -> Name:
    return builder.node("Clip", x, builder.constant(low), builder.constant(high))


def _power_of_two(builder: OnnxBuilder, x: Name, direction: str) -> Name:
    """Return the power of two at or below `x`, or at or above it: E8M0 has nothing but powers of two."""
    return builder.cast(builder.cast(x, DataType.FLOAT8E8M0, round_mode=direction, saturate=1), DataType.FLOAT)
