"""Quantisers of the target `qonnx`: IntQuant for integers of any width, FloatQuant for small floats."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from chop.exporting.onnx_file import QONNX_DOMAIN
from chop.exporting.onnx_graph.builder import Name, OnnxBuilder
from chop.exporting.onnx_graph.call import CannotFormatError, Ref
from chop.formats import Format
from chop.formats.integer import Integer
from chop.formats.parts.grid import OnGrid
from chop.formats.parts.rounding import Rounding

ROUNDING_MODES: dict[Rounding, str] = {
    "nearest_even": "ROUND",
    "nearest_away": "HALF_UP",
    "floor": "FLOOR",
    "towards_zero": "DOWN",
}
"""The names of roundings; HALF_UP of QONNX rounds away from zero."""
FROM_DATA = "whose scale is computed from the values of each call, which QONNX has for weights only"


class QONNXQuantizers:
    """Nodes that round float32 tensors, with parameters that say to which numbers."""

    target = "qonnx"

    def parameter(
        self, builder: OnnxBuilder, name: str, value: Tensor, number_format: Format, scale: Tensor | None
    ) -> Name:
        """Return a constant that was rounded before, and a node that rounds it to the same numbers."""
        if not number_format.is_repeatable:
            raise CannotFormatError("which rounds differently in each call")
        rounded = _quantized(number_format, value, scale)
        if isinstance(number_format, Integer) and not number_format.is_fixed_point and scale is None:
            _, used = number_format.integers(value)
            if number_format.granularity == "group":
                raise CannotFormatError("whose scales belong to groups, which QONNX does not have")
        else:
            used = _scale(number_format, scale)
        return _node(builder, builder.constant(rounded, name=name), number_format, used, name, narrow=scale is None)

    def activation(self, builder: OnnxBuilder, x: Ref, number_format: Format, scale: Tensor | None) -> Name:
        """Return a tensor that was rounded with a constant scale."""
        if not number_format.is_repeatable:
            raise CannotFormatError("which rounds differently in each call")
        if number_format.values_depend_on_data and scale is None:
            raise CannotFormatError(FROM_DATA)
        return _node(builder, x.name, number_format, _scale(number_format, scale), builder.owner, narrow=False)


def _quantized(number_format: Format, value: Tensor, scale: Tensor | None) -> Tensor:
    # Only formats that take a scale are given one.
    return number_format.quantize(value) if scale is None else number_format.quantize(value, scale)  # type: ignore[call-arg]


def _scale(number_format: Format, scale: Tensor | None) -> Tensor:
    if scale is not None:
        return number_format.step_of(scale)
    if isinstance(number_format, Integer):
        return torch.tensor(math.ldexp(1.0, -int(number_format.precision[1])))
    return torch.tensor(1.0)


def _node(builder: OnnxBuilder, x: Name, number_format: Format, scale: Tensor, name: str, *, narrow: bool) -> Name:
    """Return the result of the node that rounds `x`; `narrow`: a step from data covers magnitudes."""
    if isinstance(number_format, Integer):
        if number_format.width == 1 and number_format.is_signed:
            raise CannotFormatError("and 1-bit IntQuant of QONNX has the values -1 and 1")
        from_data = narrow and not number_format.is_fixed_point
        return builder.node(
            "IntQuant",
            x,
            builder.constant(scale.float(), name=f"{name}.scale"),
            builder.constant(0.0),
            builder.constant(float(number_format.width)),
            domain=QONNX_DOMAIN,
            signed=int(number_format.is_signed),
            narrow=int(from_data and number_format.is_signed),
            rounding_mode=ROUNDING_MODES[number_format.rounding],
        )
    if not isinstance(number_format, OnGrid) or number_format.grid.mantissa == 0:
        raise CannotFormatError("for which QONNX has no quantiser")
    return _float_quant(builder, x, number_format, scale, name)


def _float_quant(builder: OnnxBuilder, x: Name, number_format: OnGrid, scale: Tensor, name: str) -> Name:
    grid = number_format.grid
    exponents = number_format.width - 1 - grid.mantissa
    if number_format.rounding not in ("nearest_even", "floor") or exponents < 1:
        raise CannotFormatError("for which QONNX has no quantiser")
    parameters = (float(exponents), float(grid.mantissa), float(1 - grid.min_exponent), grid.largest)
    return builder.node(
        "FloatQuant",
        x,
        builder.constant(scale.float(), name=f"{name}.scale"),
        *(builder.constant(each) for each in parameters),
        domain=QONNX_DOMAIN,
        rounding_mode=ROUNDING_MODES[number_format.rounding],
        has_inf=0,
        has_nan=0,
        has_subnormal=1,
        saturation=1,
    )
