"""The quantisers of ONNX, QONNX and Brevitas as number formats."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from chop.formats.fp8 import FP8
from chop.formats.integer import Integer
from chop.formats.minifloat import MinifloatIEEE
from chop.formats.parts.grid import OnGrid
from chop.formats.parts.rounding import Rounding
from chop.models.onnx_reader.protos import FLOAT_TYPES, INTEGER_TYPES, type_name
from chop.models.onnx_reader.reader import Constant, Flow, OnnxReader, Quantization, ReadNode, constant, reads

ROUNDINGS: dict[str, Rounding] = {
    "ROUND": "nearest_even",
    "HALF_EVEN": "nearest_even",
    "HALF_UP": "nearest_away",
    "FLOOR": "floor",
    "DOWN": "towards_zero",
    "ROUND_TO_ZERO": "towards_zero",
}


@dataclass(frozen=True, eq=False)
class Codes:
    """What QuantizeLinear returns, until DequantizeLinear reads it."""

    flow: Flow
    quantization: Quantization
    scale: Tensor
    """In a shape that broadcasts against the values."""


@dataclass(frozen=True, eq=False)
class Limited:
    """What Clip returns if QuantizeLinear follows: the range of a format, or a function of its own."""

    flow: Flow
    low: float
    high: float


def _check_zero(step: ReadNode, index: int) -> None:
    if len(step.inputs) > index and step.inputs[index] is not None:
        zero = constant(step.inputs[index], "the zero point")
        if bool((zero != 0).any()):
            raise ValueError("number formats have no zero point other than 0")


@reads("QuantizeLinear")
def _quantize_linear(reader: OnnxReader, step: ReadNode) -> Any:
    _check_zero(step, 2)
    x, scale = step.inputs[0], constant(step.inputs[1], "the scale")
    number = step.attributes.get("output_dtype") or (reader.types[step.names[2]] if len(step.names) > 2 else 2)
    kind = type_name(number)
    limits = None
    if isinstance(x, Limited):
        limits, x = (x.low, x.high), x.flow
    flow = reader.rounded(reader.flow(x))
    if kind in FLOAT_TYPES:
        if float(scale.reshape(-1)[0]) != 1.0 or scale.numel() > 1:
            raise ValueError("8-bit floats are read without scales")
        return Codes(flow, Quantization(FP8(FLOAT_TYPES[kind])), scale.reshape(()))
    width, signed = INTEGER_TYPES[kind]
    if limits is not None:
        found = _width_of(limits, float(scale), signed)
        if found is None:
            flow = reader.call(torch.clamp, flow, *limits)
        width = found or width
    axis, block = step.attributes.get("axis", 1), step.attributes.get("block_size", 0)
    wide = broadcast_scale(scale, flow.sample.dim(), axis, block, flow.sample.shape)
    return Codes(flow, integer_quantization(width, signed, wide, "nearest_even"), wide)


def _width_of(limits: tuple[float, float], scale: float, signed: bool) -> int | None:
    """Return the width of the integers between two limits; None if they are not the range of a width."""
    for width in range(1, 33):
        low, high = _range(width, signed)
        if limits == (low * scale, high * scale):
            return width
    return None


@reads("DequantizeLinear")
def _dequantize_linear(reader: OnnxReader, step: ReadNode) -> Any:
    x = step.inputs[0]
    _check_zero(step, 2)
    codes = x.flow.sample if isinstance(x, Codes) else constant(x, "the quantised tensor")
    scale = constant(step.inputs[1], "the scale")
    axis, block = step.attributes.get("axis", 1), step.attributes.get("block_size", 0)
    wide = broadcast_scale(scale, max(codes.dim(), 1), axis, block, codes.shape)
    if isinstance(x, Codes):
        if not wide.equal(x.scale):
            raise ValueError("its scale is not that of the QuantizeLinear before it")
        return replace(x.flow, quantization=x.quantization)
    value, kind = codes.float() * wide, type_name(reader.types[step.names[0]])
    if kind in FLOAT_TYPES and wide.numel() == 1 and float(wide) == 1.0:
        return Constant(value, Quantization(FP8(FLOAT_TYPES[kind])))
    if kind not in INTEGER_TYPES:
        return Constant(value)
    width, signed = INTEGER_TYPES[kind]
    if x.limits is not None:
        width = _width_covering(x.limits, signed)
    return Constant(value, integer_quantization(width, signed, wide, "nearest_even"))


@reads("IntQuant", "Quant")
def _int_quant(reader: OnnxReader, step: ReadNode) -> Any:
    _check_zero(step, 2)
    x, scale = step.inputs[0], constant(step.inputs[1], "the scale")
    width = int(constant(step.inputs[3], "the width"))
    signed, narrow = bool(step.attributes.get("signed", 1)), bool(step.attributes.get("narrow", 0))
    mode = str(step.attributes.get("rounding_mode", "ROUND")).upper()
    if mode not in ROUNDINGS:
        raise ValueError(f"no format rounds as '{mode}'")
    if width == 1 and signed:
        raise ValueError("no format has the two values -1 and 1 with the scale of the file")
    quantization = integer_quantization(width, signed, scale, ROUNDINGS[mode])
    bound = (2 ** (width - 1) - 1) * scale
    if isinstance(x, Constant):
        value = x.value.clamp(-bound, bound) if narrow and signed else x.value
        return Constant(value, quantization)
    flow = reader.rounded(reader.flow(x))
    if narrow and signed:
        if scale.numel() > 1:
            raise ValueError("a narrow range is read with one scale only")
        flow = reader.call(torch.clamp, flow, -float(bound), float(bound))
    return replace(flow, quantization=quantization)


@reads("FloatQuant")
def _float_quant(reader: OnnxReader, step: ReadNode) -> Any:
    scale, exponent, mantissa, bias, largest = (constant(each, "a parameter") for each in step.inputs[1:6])
    if scale.numel() > 1 or float(scale) != 1.0:
        raise ValueError("small floats are read without scales")
    mode = str(step.attributes.get("rounding_mode", "ROUND")).upper()
    quantization = float_quantization(int(exponent), int(mantissa), int(bias), float(largest), ROUNDINGS[mode])
    x = step.inputs[0]
    if isinstance(x, Constant):
        return Constant(x.value, quantization)
    return replace(reader.rounded(reader.flow(x)), quantization=quantization)


@reads("Clip")
def _clip(reader: OnnxReader, step: ReadNode) -> Any:
    x = step.inputs[0]
    if isinstance(x, Codes) or (isinstance(x, Constant) and not x.value.is_floating_point()):
        return _limited_codes(reader, step)
    given = [*step.inputs[1:], None, None]  # attributes before opset 11
    low = step.attributes.get("min", -torch.inf) if given[0] is None else float(constant(given[0], "a bound"))
    high = step.attributes.get("max", torch.inf) if given[1] is None else float(constant(given[1], "a bound"))
    flow = reader.flow(x)
    if step.following and set(step.following) == {"QuantizeLinear"}:
        return Limited(flow, low, high)
    return reader.layer(step.name, nn.Hardtanh(low, high), flow, {})


def _limited_codes(reader: OnnxReader, step: ReadNode) -> Any:
    """Return integers of fewer bits than their type has: -7 to 7 in INT8 are 4 bits, as Brevitas writes them."""
    x = step.inputs[0]
    low, high = (int(constant(each, "a bound")) for each in step.inputs[1:3])
    if isinstance(x, Constant):
        if step.names[0] in reader.types:
            reader.types[step.name] = reader.types[step.names[0]]
        return Constant(x.value.clamp(low, high), limits=(low, high))
    quantization = x.quantization
    if not isinstance(quantization.format, Integer):
        raise ValueError("only integers are limited between QuantizeLinear and DequantizeLinear")
    width = _width_covering((low, high), quantization.format.is_signed)
    if quantization.scale is None:
        scale = 2.0 ** -int(quantization.format.precision[1])
    elif quantization.scale.numel() == 1:
        scale = float(quantization.scale)
    else:
        raise ValueError("integers with several scales are not limited")
    flow = x.flow
    if (low, high) != _range(width, quantization.format.is_signed):
        flow = reader.call(torch.clamp, flow, low * scale, high * scale)
    return Codes(flow, replace(quantization, format=replace(quantization.format, width=width)), x.scale)


def _range(width: int, signed: bool) -> tuple[int, int]:
    return (-(2 ** (width - 1)) if signed else 0), 2 ** (width - signed) - 1


def _width_covering(limits: tuple[int, int], signed: bool) -> int:
    """Return the smallest width whose integers include two limits."""
    for width in range(1, 33):
        low, high = _range(width, signed)
        if low <= limits[0] and limits[1] <= high:
            return width
    raise ValueError(f"no integers of at most 32 bits reach from {limits[0]} to {limits[1]}")


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
