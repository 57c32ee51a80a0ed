"""How much the result of a node may differ between PyTorch and another engine, and why."""

from __future__ import annotations

import math

from chop.formats.integer import Integer
from chop.ir import NodeMeta
from chop.ops.base import numel

FLOAT_TOLERANCE = 2.0**-16
"""Of the largest magnitude of a result: float32 sums in another order, and other approximations of functions."""
MAX_SHARE_OF_STEPS = 0.01
"""The largest share of elements of a result that are rounded to the next number."""
FLOAT32_SIGNIFICAND = 24


def tolerance_of(meta: NodeMeta) -> float:
    """Return the largest difference of a node's result, relative to its largest magnitude.

    It is 0 where every sum is exact in float32: all operands are in fixed point, and sums need at most 24 bits.
    """
    return 0.0 if _sums_are_exact(meta) else FLOAT_TOLERANCE


def step_of_result(meta: NodeMeta, largest: float) -> float:
    """Return the distance of two numbers near `largest` in the format that rounds the result of a node, or 0."""
    quantized = meta.quantized
    number_format = None if quantized is None else quantized.formats.get("data_out_0")
    if number_format is None or not number_format.rounds:
        return 0.0
    scale = meta.scale_of("data_out_0")
    if scale is not None and isinstance(number_format, Integer):
        return float(scale.max())
    if isinstance(number_format, Integer) and number_format.is_fixed_point:
        return math.ldexp(1.0, -int(number_format.precision[1]))
    mantissa = getattr(getattr(number_format, "grid", None), "mantissa", number_format.width - 2)
    return largest * math.ldexp(1.0, -mantissa)


def _sums_are_exact(meta: NodeMeta) -> bool:
    if meta.op is None or not meta.operands or not meta.results:
        return False
    formats = {name: meta.args[name].format for name in meta.operands}
    count = meta.op.count(meta.call())
    if (
        count is None
        or not count.macs
        or count.multiplies
        or set(formats) - {"data_in_0", "data_in_1", "weight", "bias"}
    ):
        return False
    fixed = {name: each for name, each in formats.items() if isinstance(each, Integer) and each.is_fixed_point}
    if len(fixed) != len(formats):
        return False
    terms = count.macs // max(numel(tuple(meta.results["data_out_0"].shape)), 1)
    factors = [_exponents(each) for name, each in fixed.items() if name != "bias"]
    lowest = sum(low for low, _ in factors)
    highest = sum(high for _, high in factors) + math.ceil(math.log2(max(terms, 1)))
    if "bias" in fixed:
        low, high = _exponents(fixed["bias"])
        lowest, highest = min(lowest, low), max(highest, high) + 1
    return highest - lowest <= FLOAT32_SIGNIFICAND


def _exponents(number_format: Integer) -> tuple[int, int]:
    """Return the exponents of two of the last bit, and of a bound on the magnitude."""
    width, fraction = (int(number) for number in number_format.precision)
    return -fraction, width - number_format.is_signed - fraction
