"""Rounding to integers in float32, for roundings that QuantizeLinear does not have."""

from __future__ import annotations

from chop.exporting.onnx_graph.builder import Name, OnnxBuilder
from chop.exporting.onnx_graph.call import CannotFormatError
from chop.formats.parts.rounding import Rounding

FOUR_EPS = 4 * 2.0**-23
"""Quotients this close to an integer are that integer, as in `chop.formats.parts.rounding.round_quotients`."""


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
