"""Quantisers of the target `onnx`: QuantizeLinear and DequantizeLinear, with weights in the narrow type."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from chop.exporting.onnx_graph.builder import Name, OnnxBuilder
from chop.exporting.onnx_graph.call import CannotFormatError, Ref
from chop.exporting.onnx_graph.data_types import ELEMENTS, OPSETS, WIDTHS, DataType, integer_limits, integer_type
from chop.exporting.onnx_graph.scales import LinearScale, scaling_of
from chop.exporting.stored_tensor import StoredTensor, store
from chop.formats import Format
from chop.formats.binary import Binary
from chop.formats.block_fp import BlockFP
from chop.formats.float import BFloat16, Float16
from chop.formats.fp8 import FP8
from chop.formats.integer import Integer
from chop.formats.microscaling import MXFP, Microscaled, MXInt
from chop.formats.nvfp4 import NVFP4
from chop.formats.parts.rounding import Rounding

NO_TYPE = "for which ONNX has no type"
NATIVE: dict[type[Format], DataType] = {Float16: DataType.FLOAT16, BFloat16: DataType.BFLOAT16}
FOUR_EPS = 4 * 2.0**-23
"""Quotients this close to an integer are that integer, as in `chop.formats.parts.rounding.round_quotients`."""


@dataclass(frozen=True)
class QDQ:
    """Pairs of QuantizeLinear and DequantizeLinear.

    `zero_points` writes zero points of 0 for INT8 and UINT8, except for blocks. onnxruntime 1.31 needs them to
    fuse layers, and fails with them in other graphs.
    """

    zero_points: bool = False
    target: ClassVar[str] = "onnx"

    def parameter(
        self, builder: OnnxBuilder, name: str, value: Tensor, number_format: Format, scale: Tensor | None
    ) -> Name:
        """Return a constant: codes in the narrow type, and DequantizeLinear."""
        if type(number_format) in NATIVE:
            rounded = number_format.quantize(value)
            dtype = torch.float16 if isinstance(number_format, Float16) else torch.bfloat16
            return builder.cast(builder.constant(rounded.to(dtype), name=name), DataType.FLOAT)
        element = element_type(number_format)
        try:
            stored = store(number_format, value, scale)
        except ValueError as error:
            raise CannotFormatError(str(error)) from error
        if isinstance(number_format, Binary):
            codes, width = stored.table[stored.codes].long(), 2
        else:
            codes, width = stored.codes, number_format.width
        if element in WIDTHS:
            width = WIDTHS[element]
        shaped = codes.reshape(stored.padded)[tuple(slice(n) for n in stored.shape)]
        packed = builder.packed(element, shaped.contiguous().numpy(), width, name)
        scales, attributes = _stored_scales(builder, stored, name)
        zero = self._zeros(builder, name, element, shaped.shape, attributes)
        return builder.node("DequantizeLinear", packed, scales, *zero, **attributes)

    def activation(self, builder: OnnxBuilder, x: Ref, number_format: Format, scale: Tensor | None) -> Name:
        """Return a tensor that was rounded by QuantizeLinear, with a constant scale or one computed from it."""
        if type(number_format) in NATIVE:
            return _by_cast(builder, x, number_format)
        if not number_format.is_repeatable:
            raise CannotFormatError("which rounds differently in each call")
        if isinstance(number_format, Binary) or number_format.name == "ternary":
            raise CannotFormatError("whose scale is a mean of the data, which ONNX has for weights only")
        element = element_type(number_format)
        if element in OPSETS:
            builder.need(OPSETS[element], f"the type {element.name}")
        scaling = scaling_of(builder, x, number_format, scale)
        if not scaling.attributes:
            scaling = replace(scaling, zero=self._zero(builder, element))
        if isinstance(number_format, Integer | MXInt | BlockFP):
            q = _integers(builder, x, number_format, element, scaling)
        elif getattr(number_format, "rounding", "nearest_even") != "nearest_even":
            raise CannotFormatError("and QuantizeLinear rounds to the nearest even number only")
        else:
            q = scaling.quantize(builder, x.name, element)
        return scaling.dequantize(builder, q)

    def _zeros(
        self, builder: OnnxBuilder, name: str, element: DataType, shape: torch.Size, attributes: dict[str, int]
    ) -> tuple[Name, ...]:
        """Return the zero points of a weight, which no other weight shares: onnxruntime may change them."""
        if not self.zero_points or element not in (DataType.INT8, DataType.UINT8) or "block_size" in attributes:
            return ()
        sizes = (shape[attributes["axis"]],) if attributes else ()
        return (builder.zeros(element, sizes, f"{name}.zero_point"),)

    def _zero(self, builder: OnnxBuilder, element: DataType) -> tuple[Name, ...]:
        if not self.zero_points or element not in (DataType.INT8, DataType.UINT8):
            return ()
        return (builder.packed(element, np.zeros((), np.int64), 8, f"zero.{element.name}"),)


def storage_type(number_format: Format) -> DataType:
    """Return the type in which weights of a format are stored."""
    if not number_format.rounds:
        return DataType.FLOAT
    return NATIVE.get(type(number_format)) or element_type(number_format)


def element_type(number_format: Format) -> DataType:
    """Return the type that holds the elements of a format: the smallest one for integers of other widths."""
    if isinstance(number_format, Integer):
        if number_format.width > 16 and not number_format.is_signed:
            raise CannotFormatError(NO_TYPE)
        return integer_type(number_format.width, number_format.is_signed)
    if isinstance(number_format, MXInt | BlockFP):
        return integer_type(number_format.width, True)
    if isinstance(number_format, Binary) or number_format.name == "ternary":
        return DataType.INT2
    if isinstance(number_format, NVFP4):
        return DataType.FLOAT4E2M1
    if isinstance(number_format, FP8 | MXFP) and number_format.element in ELEMENTS:
        return ELEMENTS[number_format.element]
    raise CannotFormatError(NO_TYPE)


def _by_cast(builder: OnnxBuilder, x: Ref, number_format: Format) -> Name:
    """Return a tensor that was saturated, cast to a 16-bit float, and back."""
    assert isinstance(number_format, Float16 | BFloat16), "the formats in NATIVE"
    if number_format.rounding != "nearest_even":
        raise CannotFormatError("and Cast rounds to the nearest even number only")
    top = number_format.grid.largest
    limited = builder.node("Clip", x.name, builder.constant(-top), builder.constant(top))
    return builder.cast(builder.cast(limited, NATIVE[type(number_format)]), DataType.FLOAT)


def _integers(
    builder: OnnxBuilder,
    x: Ref,
    number_format: Integer | MXInt | BlockFP,
    element: DataType,
    scaling: LinearScale,
) -> Name:
    """Return the integers of a tensor in the range of its format, which may be smaller than that of the type."""
    low, high = limits(number_format, scaling)
    is_direct = number_format.rounding == "nearest_even" and element is not DataType.INT32
    if is_direct and (scaling.covers or (low, high) == integer_limits(element)):
        return scaling.quantize(builder, x.name, element)
    if is_direct and scaling.value is not None:
        bounds = [builder.constant(bound * scaling.value) for bound in (low, high)]
        return scaling.quantize(builder, builder.node("Clip", x.name, *bounds), element)
    is_exact = not isinstance(number_format, Integer) or number_format.has_power_of_two_scale
    quotients = scaling.divide(builder, x)
    integers = round_integers(builder, quotients, number_format.rounding, is_exact)
    limited = builder.node("Clip", integers, builder.constant(float(low)), builder.constant(float(high)))
    limited = scaling.join(builder, limited, x)
    if element is DataType.INT32:
        return builder.cast(limited, DataType.INT32)
    one = LinearScale(builder.constant(1.0), zero=scaling.zero)
    return one.quantize(builder, limited, element)


def limits(number_format: Integer | MXInt | BlockFP, scaling: LinearScale) -> tuple[int, int]:
    """Return the smallest and the largest integer of a format; with a step from data, -127 instead of -128."""
    if not isinstance(number_format, Integer):
        return -number_format.grid.limit, number_format.grid.limit
    high = 2 ** (number_format.width - number_format.is_signed) - 1
    low = -(2 ** (number_format.width - 1)) if number_format.is_signed else 0
    return (-max(high, 1) if number_format.is_signed else 0, high) if scaling.covers else (low, high)


def _stored_scales(builder: OnnxBuilder, stored: StoredTensor, name: str) -> tuple[Name, dict[str, int]]:
    """Return the scales of a constant, and the attributes of DequantizeLinear that say what shares them."""
    if stored.scale is None:
        return builder.constant(stored.unit), {}
    scale, attributes = _shared_along(stored, stored.scale)
    label = f"{name}.scale"
    if isinstance(stored.format, Microscaled):
        return _power_of_two_scales(builder, scale, stored.unit, label), attributes
    if stored.tensor_scale is not None:
        # NVFP4: scales are E4M3 numbers, times the scale of the tensor.
        packed = builder.constant(scale.to(torch.float8_e4m3fn), name=label)
        return builder.node("DequantizeLinear", packed, builder.constant(stored.tensor_scale)), attributes
    return builder.constant(scale * stored.unit, name=label), attributes


def _shared_along(stored: StoredTensor, scale: Tensor) -> tuple[Tensor, dict[str, int]]:
    """Return scales in the shape that DequantizeLinear takes: a number, one per index of an axis, or per block."""
    if scale.dim() > len(stored.shape):
        if stored.block is None:
            raise CannotFormatError("whose blocks extend over several dimensions, which ONNX does not have")
        if scale.numel() == 1:
            return scale.reshape(()), {}
        dim, size = stored.block
        return scale.squeeze(dim + 1), {"axis": dim, "block_size": size}
    dims = [d for d, n in enumerate(scale.shape) if n > 1]
    if not dims:
        return scale.reshape(()), {}
    if len(dims) == 1:
        return scale.reshape(-1), {"axis": dims[0]}
    last = len(stored.shape) - 1
    return scale, {"axis": last, "block_size": stored.shape[last]}


def _power_of_two_scales(builder: OnnxBuilder, scale: Tensor, unit: float, label: str) -> Name:
    """Return E8M0 scales as float32, times the unit of the elements."""
    exponents = scale.double().frexp().exponent.long() + 126
    if int(exponents.min()) < 0 or int(exponents.max()) > 254:
        raise CannotFormatError("whose scales are beyond those of E8M0")
    codes = builder.packed(DataType.FLOAT8E8M0, exponents.numpy(), 8, label)
    floats = builder.cast(codes, DataType.FLOAT)
    return floats if unit == 1.0 else builder.node("Mul", floats, builder.constant(unit))


def round_integers(builder: OnnxBuilder, x: Name, rounding: Rounding, is_exact: bool) -> Name:
    """Return the integers next to `x`; `is_exact`: whether `x` is a quotient by a power of two."""
    match rounding:
        case "nearest_even":
            return builder.node("Round", x)
        case "nearest_away":
            return _away(builder, x)
        case "floor" | "towards_zero":
            directed = builder.node("Floor", x) if rounding == "floor" else _truncated(builder, x)
            return directed if is_exact else _with_near_integers(builder, x, directed)
        case _:
            raise CannotFormatError("which rounds differently in each call")


def _truncated(builder: OnnxBuilder, x: Name) -> Name:
    return builder.node("Mul", builder.node("Sign", x), builder.node("Floor", builder.node("Abs", x)))


def _away(builder: OnnxBuilder, x: Name) -> Name:
    """Round half away from zero, without the sum with 0.5, which would itself be rounded."""
    magnitude = builder.node("Abs", x)
    below = builder.node("Floor", magnitude)
    fraction = builder.node("Sub", magnitude, below)
    up = builder.node("GreaterOrEqual", fraction, builder.constant(0.5))
    added = builder.node("Where", up, builder.constant(1.0), builder.constant(0.0))
    return builder.node("Mul", builder.node("Sign", x), builder.node("Add", below, added))


def _with_near_integers(builder: OnnxBuilder, x: Name, directed: Name) -> Name:
    nearest = builder.node("Round", x)
    distance = builder.node("Abs", builder.node("Sub", x, nearest))
    limit = builder.node("Mul", builder.node("Abs", x), builder.constant(FOUR_EPS))
    return builder.node("Where", builder.node("LessOrEqual", distance, limit), nearest, directed)
