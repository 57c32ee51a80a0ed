"""Number formats as integers: which ones a circuit can hold, and how an operand is written in one."""

from __future__ import annotations

from typing import TypeGuard

import numpy as np
import torch
from torch import Tensor

from chop.formats import Format
from chop.formats.binary import Binary
from chop.formats.integer import Integer
from chop.formats.mixed_integer import MixedInteger
from chop.formats.ternary import Ternary
from chop.hardware.program.signal import ExactRounding, IntArray, Signal, exact_rounding
from chop.ir import NodeMeta
from chop.nn.quantized import QuantizedLayer


def data_signal(meta: NodeMeta, name: str, shape: tuple[int, ...]) -> tuple[Signal, ExactRounding] | None:
    """Return the integers of a quantised activation of one row, and its rounding; None if it is not quantised."""
    quantized = meta.quantized
    number_format = None if quantized is None else quantized.formats.get(name)
    if number_format is None or not number_format.rounds:
        return None
    where = f"node '{meta.node.name}'"
    if isinstance(number_format, MixedInteger):
        return mixed_signal(number_format, shape), exact_rounding(number_format.rounding, where)
    frac = _fraction(number_format, meta.scale_of(name), f"{where}: {name}")
    assert isinstance(number_format, Integer), "checked by _fraction"
    low, high = limits(number_format)
    return Signal.uniform(shape, frac, low, high), exact_rounding(number_format.rounding, where)


def mixed_signal(number_format: MixedInteger, shape: tuple[int, ...]) -> Signal:
    """Return the integers of a tensor whose elements have different widths."""
    parts = (np.broadcast_to(each.numpy(), shape).astype(np.int64) for each in number_format.limits())
    return Signal(*parts)


def has_signs(number_format: Format | None) -> TypeGuard[Binary | Ternary]:
    """Whether the numbers of a format are signs with one scale, so that a factor per weight would be lost."""
    return isinstance(number_format, Binary | Ternary)


def limits(number_format: Integer) -> tuple[int, int]:
    """Return the smallest and the largest integer of a fixed-point format."""
    if number_format.is_signed:
        return -(2 ** (number_format.width - 1)), 2 ** (number_format.width - 1) - 1
    return 0, 2**number_format.width - 1


def parameter_integers(meta: NodeMeta, name: str) -> tuple[IntArray, IntArray]:
    """Return the integers of a quantised weight or bias, and their fraction bits, which broadcast against them."""
    layer, where = meta.quantized, f"node '{meta.node.name}': {name}"
    assert isinstance(layer, QuantizedLayer), "checked before its parameters are read"
    number_format = layer.formats[name]
    if not number_format.is_repeatable:
        raise ValueError(f"{where}: {number_format} rounds at random, which cannot be repeated in hardware")
    if getattr(number_format, "rounding", "nearest_even") == "stochastic":
        exact_rounding("stochastic", where)
    try:
        integers, scale = layer.integers(name)
    except ValueError as error:
        raise ValueError(f"{where}: format {number_format} is not supported by hardware: {error}") from error
    return integers.numpy().astype(np.int64), _power_of_two(scale, number_format, where)


def _fraction(number_format: Format, scale: Tensor | None, where: str) -> int:
    """Return the fraction bits of an activation."""
    if isinstance(number_format, Integer):
        if scale is not None:
            return int(_power_of_two(scale, number_format, where))
        if number_format.is_fixed_point:
            return int(number_format.precision[1])
    raise ValueError(
        f"{where}: format {number_format} is not supported for data in hardware; use 'integer' with a fixed "
        "frac_width (scale 'power_of_two', granularity 'tensor')"
    )


def _power_of_two(scale: Tensor, number_format: Format, where: str) -> IntArray:
    """Return -log2 of scales that are powers of two."""
    mantissa, exponent = torch.frexp(scale.detach().double())
    if not bool((mantissa == 0.5).all()):
        others = "use scale 'power_of_two' or 'learned_power_of_two'"
        hint = "run resolve_formats_transform_pass first" if has_signs(number_format) else others
        raise ValueError(
            f"{where}: the scale of {number_format} is not a power of two, which hardware needs; {hint}"
        )
    return (1 - exponent.numpy()).astype(np.int64)
