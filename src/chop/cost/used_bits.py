"""The bits of operands that a multiplier with fixed weights needs."""

from __future__ import annotations

from fractions import Fraction

import torch
from torch import Tensor

from chop.cost.memory import is_constant
from chop.formats import Format
from chop.formats.float import Float
from chop.formats.mixed_integer import MixedInteger
from chop.ir import NodeMeta
from chop.nn.quantized import QuantizedLayer


def used_bits(meta: NodeMeta, left: str, right: str) -> Fraction:
    """Return the average product of the numbers of bits of two operands that are used, as defined by HGQ.

    - Signs do not count, and neither does what a block shares: it is applied to sums.
    - All other bits of data count, because they depend on the input.
    - For a weight, the bits from the highest to the lowest one that is set count: 3 for 0b0101000, none for 0.
      This refers to the integer that represents the weight, or else to its significand: powers of two, and
      therefore exponents, are shifts, which cost nothing.

    A weight whose value is unknown counts as data.
    """
    first, second = _used(meta, left), _used(meta, right)
    if isinstance(_format_of(meta, left), MixedInteger) and second.dim() > 1:
        data = first.movedim(meta.operands[left].reduce_dim, 0).flatten(1).sum(1)
        by_input = _by_input(second, meta.operands[right].reduce_dim, len(data))
        if by_input is not None:
            return Fraction(int((data * by_input).sum()) * len(data), first.numel() * second.numel())
    return _mean(first) * _mean(second)


def _by_input(bits: Tensor, reduce_dim: int, num_inputs: int) -> Tensor | None:
    """Return the sum of the bits of all weights that each input is multiplied by; None if it is not known.

    Weights are [outputs, inputs of a group, ...] after the dimension that is summed over has been moved.
    """
    by_output = bits.movedim(reduce_dim, 1)
    size = by_output.shape[1]
    groups = num_inputs // size
    if groups * size != num_inputs or by_output.shape[0] % groups:
        return None
    return by_output.reshape(groups, by_output.shape[0] // groups, size, -1).sum((1, 3)).flatten()


def _mean(bits: Tensor) -> Fraction:
    return Fraction(int(bits.sum()), bits.numel())


def _used(meta: NodeMeta, name: str) -> Tensor:
    """Return the used bits of each element of an operand, or one number for all of them."""
    number_format = _format_of(meta, name)
    constant = name in meta.args and is_constant(meta, name)
    value = meta.value(name) if constant else None
    if value is not None and value.numel():
        return enclosed_bits(_integers(meta, name, value.float(), number_format))
    if isinstance(number_format, MixedInteger):
        return (number_format.widths_of(meta.args[name].shape) - int(number_format.is_signed)).clamp(min=0)
    return torch.tensor(_declared(number_format))


def _format_of(meta: NodeMeta, name: str) -> Format:
    """Return the format of an operand, with the operand's dimensions for blocks and channels."""
    if name not in meta.args:
        return Float()
    number_format, operand = meta.args[name].format, meta.operands.get(name)
    return number_format if operand is None else number_format.for_operand(operand.reduce_dim, operand.channel_dim)


def _declared(number_format: Format) -> int:
    """Return the bits of the magnitude; at least 1, for a format that is only a sign."""
    return max(number_format.width - bool(getattr(number_format, "is_signed", True)), 1)


def _integers(meta: NodeMeta, name: str, value: Tensor, number_format: Format) -> Tensor:
    """Return the integers that represent a weight, or its significands as integers if the format has none."""
    layer = meta.quantized if isinstance(meta.quantized, QuantizedLayer) else None
    try:
        if layer is not None and name in layer.parameter_names and layer.formats.get(name) == number_format:
            return layer.integers(name)[0]  # with the layer's scale, which may be learned
        return number_format.integers(value)[0]
    except ValueError:
        significand = torch.frexp(number_format.quantize(value).double()).mantissa
        return significand.mul(2.0**53).nan_to_num_(0.0, 0.0, 0.0).long()


def enclosed_bits(integers: Tensor) -> Tensor:
    """Return the number of bits from the highest to the lowest set bit of each magnitude; 0 for 0."""
    magnitude = integers.abs()
    lowest = magnitude & -magnitude
    span = torch.frexp(magnitude.double()).exponent - torch.frexp(lowest.double()).exponent + 1
    return span * (magnitude != 0)
