"""Layers that learn a number of fraction bits per channel or element, together with their weights."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Literal

import torch
from torch import Tensor, nn

from chop.config import Granularity
from chop.formats.mixed_integer import MAX_WIDTH, MixedInteger
from chop.ops import Op

CostTerm = Literal["ebops", "lut"]
DIGITS_PER_BIT = 1 / 3
"""Average share of digits that are not 0 in canonical signed digits; each of them is an adder."""


class LearnedInput(nn.Module):
    """Rounding of an activation, with learned fraction bits; all layers that read the activation share it."""

    def __init__(self, low: Tensor, high: Tensor, width: int, shape: Sequence[int]) -> None:
        super().__init__()
        self.low: Tensor
        self.high: Tensor
        self.least: Tensor
        self.most: Tensor
        self.register_buffer("low", _reduced(low, shape, torch.amin))
        self.register_buffer("high", _reduced(high, shape, torch.amax))
        self.is_signed = bool((self.low < 0).any())
        most = width - int(self.is_signed) - _integer_bits(torch.maximum(self.high, -self.low))
        self.fraction = nn.Parameter(most.float())
        self.register_buffer("most", most.float())
        self.register_buffer("least", most.float() - width - 1)  # all values are rounded to 0

    def forward(self, x: Tensor) -> Tensor:
        return round_to_fraction(x, self.fraction)

    def bits(self) -> Tensor:
        """Return the bits of each element without its sign; gradients flow to the fraction bits."""
        largest = torch.maximum(self.high, -self.low)
        bits = rounded_bits(self.fraction) + _integer_bits(largest)
        return torch.where(largest > 0, bits, torch.zeros_like(bits)).clamp(min=0)

    def record_range(self, x: Tensor) -> None:
        """Widen the range to the rounded values of `x`."""
        rounded = round_to_fraction(x, self.fraction).detach()
        shape = self.fraction.shape
        torch.minimum(self.low, _reduced(rounded, shape, torch.amin), out=self.low)
        torch.maximum(self.high, _reduced(rounded, shape, torch.amax), out=self.high)

    def number_format(self) -> MixedInteger:
        """Return the format that holds all values of the recorded range."""
        fraction = self.fraction.detach().round()
        largest = torch.maximum(self.high, -self.low - torch.exp2(-fraction)).clamp(min=0)
        bits = torch.where((self.high > 0) | (self.low < 0), _integer_bits(largest) + fraction, 0.0).clamp(min=0)
        widths = torch.where(bits > 0, bits + int(self.is_signed), 0.0).clamp(max=MAX_WIDTH)
        # Half a step is added in advance, to the bias of the layer before, if no number is negative.
        rounding: Literal["nearest_away", "nearest_even"] = "nearest_even" if self.is_signed else "nearest_away"
        fraction = torch.where(widths > 0, fraction, 0.0)
        return MixedInteger.of(widths, fraction, is_signed=self.is_signed, rounding=rounding)


class LearnedParameter(nn.Module):
    """Rounding of weights or biases, with learned fraction bits; those that are rounded to 0 have no bits."""

    def __init__(self, values: nn.Parameter, width: int, shape: Sequence[int]) -> None:
        super().__init__()
        self._values = values
        self.least: Tensor
        self.most: Tensor
        largest = _integer_bits(values.detach().abs().max())
        self.fraction = nn.Parameter(values.new_full(tuple(shape), float(width - 1 - largest)))
        self.register_buffer("most", self.fraction.detach().clone())
        self.register_buffer("least", values.new_full(tuple(shape), float(-largest - 2)))

    def forward(self) -> Tensor:
        return round_to_fraction(self._values, self.fraction)

    def bits(self) -> Tensor:
        """Return the bits of each element without its sign; gradients flow to the fraction bits."""
        values = self().detach()
        bits = rounded_bits(self.fraction) + _integer_bits(values.abs())
        return torch.where(values != 0, bits, torch.zeros_like(bits))

    def digits(self) -> Tensor:
        """Return the signed digits of each element that are not 0; gradients flow to the fraction bits."""
        values = self().detach()
        fraction = rounded_bits(self.fraction)
        digits = _num_signed_digits((values * torch.exp2(fraction.detach())).round().long())
        slope = DIGITS_PER_BIT * (fraction - fraction.detach())
        return torch.where(values != 0, digits + slope, torch.zeros_like(values))

    def number_format(self) -> MixedInteger:
        """Return the format in which the rounded values are exact, without lowest bits that are always 0."""
        values = self().detach()
        fraction = self.fraction.detach().round().expand_as(values)
        integers = (values * torch.exp2(fraction)).round().long()
        shape = self.fraction.shape
        trailing_zeros = torch.frexp((integers & -integers).double()).exponent - 1
        kept = _reduced(torch.where(integers == 0, -torch.inf, fraction - trailing_zeros), shape, torch.amax)
        magnitude = torch.where(integers == 0, -torch.inf, _integer_bits(values.abs()))
        widths = _reduced(magnitude, shape, torch.amax) + kept + 1
        return MixedInteger.of(*(each.nan_to_num(0.0, 0.0, 0.0) for each in (widths, kept)))


class LearnedLayer(nn.Module):
    """A linear layer, convolution or affine batch norm whose weights and biases have learned fraction bits."""

    def __init__(
        self, layer: Any, op: Op, positions: int, data: LearnedInput, width: int, granularity: Granularity
    ) -> None:
        super().__init__()
        self.layer, self.data, self.positions = layer, data, positions
        assert op.compute is not None, "layers with weights can compute with rounded ones"
        self._compute = op.compute
        shape = layer.weight.shape
        if granularity != "element":
            shape = (len(layer.weight), *(1,) * (layer.weight.dim() - 1))
        self.weight = LearnedParameter(layer.weight, width, shape)
        self.bias = None if layer.bias is None else LearnedParameter(layer.bias, width, layer.bias.shape)
        self.records_range = False
        """Whether the next calls record the range of their inputs."""

    def forward(self, x: Tensor) -> Any:
        if self.records_range:
            self.data.record_range(x)
        return self._compute(self.layer, self.data(x), self.weight(), None if self.bias is None else self.bias())

    def cost(self, term: CostTerm) -> Tensor:
        """Return the cost of all products and biases for one row, with gradients to the fraction bits."""
        weights = self.weight.bits() if term == "ebops" else self.weight.digits()
        data = self.data.bits() + (0 if term == "ebops" else 1)  # an adder is a bit wider than its operands
        products = (_by_input(weights, self.layer) * data.flatten()).sum()
        return self.positions * (products if self.bias is None else products + self.bias.bits().sum())

    def formats(self) -> dict[str, MixedInteger]:
        """Return the formats of all operands in which the rounded layer is exact."""
        found = {"data_in_0": self.data.number_format(), "weight": self.weight.number_format()}
        return found if self.bias is None else {**found, "bias": self.bias.number_format()}


def rounded_bits(fraction: Tensor) -> Tensor:
    """Return whole numbers of bits; the gradient passes straight through."""
    return fraction + (fraction.round() - fraction).detach()


class _RoundToFraction(torch.autograd.Function):
    """Rounding with the gradient of its error: one more bit halves it (HGQ, Sun et al. 2024, arXiv:2405.00645)."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, fraction: Tensor) -> Tensor:
        scale = torch.exp2(fraction.round())
        q = (x * scale).round_().div_(scale)
        ctx.save_for_backward(x - q)
        ctx.fraction_shape = fraction.shape
        return q

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor]:
        (error,) = ctx.saved_tensors
        return gradient, (gradient * error).sum_to_size(ctx.fraction_shape).mul(math.log(2))


round_to_fraction: Callable[[Tensor, Tensor], Tensor] = _RoundToFraction.apply
"""Returns a tensor with this many fraction bits, rounded; gradients flow to both."""


def _by_input(weights: Tensor, layer: Any) -> Tensor:
    """Return the sum over all weights that each input channel is multiplied by."""
    if weights.dim() == 1:
        return weights
    groups = getattr(layer, "groups", 1)
    return weights.reshape(groups, len(weights) // groups, weights.shape[1], -1).sum((1, 3)).flatten()


def _integer_bits(magnitude: Tensor) -> Tensor:
    """Return the position above the highest set bit: 3 for 5.5, 0 for 0.75, -1 for 0.25; 0 for 0."""
    return torch.where(magnitude > 0, torch.frexp(magnitude).exponent, 0).to(magnitude.dtype)


def _num_signed_digits(integers: Tensor) -> Tensor:
    """Return how many canonical signed digits are not 0: the bits in which n and 3 n differ."""
    differing = integers.abs() ^ (3 * integers.abs())
    return sum(((differing >> place) & 1 for place in range(MAX_WIDTH + 2)), torch.zeros_like(integers))


def _reduced(x: Tensor, shape: Sequence[int], reduce: Callable[..., Tensor]) -> Tensor:
    """Return the smallest or largest values of `x` over the dimensions that `shape` lacks or has as 1."""
    first = x.dim() - len(shape)
    dims = [dim for dim in range(x.dim()) if dim < first or (shape[dim - first] == 1 and x.shape[dim] != 1)]
    return reduce(x, dim=dims, keepdim=True).reshape(tuple(shape)) if dims else x.reshape(tuple(shape)).clone()
