"""Bits of the factors of a product that hardware with fixed weights has to wire up."""

from __future__ import annotations

from fractions import Fraction

import torch
from torch import Tensor

from chop.cost.memory import is_constant
from chop.formats import Format
from chop.formats.float import Float
from chop.ir import NodeMeta
from chop.nn.quantized import QuantizedLayer


def used_bits(meta: NodeMeta, left: str, right: str) -> tuple[Fraction, Fraction]:
    """Average bits of two operands of a node that a product of them uses, as HGQ counts them.

    - The sign is none of them, in any format. What a block shares is none either: it is applied to sums.
    - Of data, all other bits of the format are used: they depend on the input.
    - Of a weight, those from the highest to the lowest that is set in its magnitude: 0b0101000 uses 3, 0 none.
      The magnitude is that of the integer behind the value, or else of the significand: powers of two, and so
      exponents, are shifts, which cost nothing.

    A weight whose value is not known counts as data. Each element of a weight takes part in equally many products,
    so that the average is enough.
    """
    return _used(meta, left), _used(meta, right)


def _used(meta: NodeMeta, name: str) -> Fraction:
    number_format = _placed(meta, name)
    constant = name in meta.args and is_constant(meta, name)
    value = meta.value(name) if constant else None
    if value is None or value.numel() == 0:
        return Fraction(_declared(number_format))
    used = enclosed_bits(_integers(meta, name, value.float(), number_format))
    return Fraction(int(used.sum()), used.numel())


def _placed(meta: NodeMeta, name: str) -> Format:
    """The format of an operand, with its blocks and channels where they are in that operand."""
    if name not in meta.args:
        return Float()
    number_format, operand = meta.args[name].format, meta.operands.get(name)
    return number_format if operand is None else number_format.placed(operand.reduce_dim, operand.channel_dim)


def _declared(number_format: Format) -> int:
    """Bits of the magnitude; at least the one that the two values of a sign take."""
    return max(number_format.width - bool(getattr(number_format, "is_signed", True)), 1)


def _integers(meta: NodeMeta, name: str, value: Tensor, number_format: Format) -> Tensor:
    """The integers behind a weight; in a format that has none, its significands as integers."""
    layer = meta.quantized
    try:
        if isinstance(layer, QuantizedLayer) and name in layer.held and layer.formats.get(name) == number_format:
            return layer.integers(name)[0]  # it may have learned its scale
        return number_format.integers(value)[0]
    except ValueError:
        significand = torch.frexp(number_format.quantize(value).double()).mantissa
        return significand.mul(2.0**53).nan_to_num_(0.0, 0.0, 0.0).long()


def enclosed_bits(integers: Tensor) -> Tensor:
    """Bits from the highest to the lowest that is set in each magnitude; 0 for 0."""
    magnitude = integers.abs()
    lowest = magnitude & -magnitude
    span = torch.frexp(magnitude.double()).exponent - torch.frexp(lowest.double()).exponent + 1
    return span * (magnitude != 0)
