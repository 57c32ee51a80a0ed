"""Block floating point."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from chop.formats.base import Format, check_range, param, register_format
from chop.formats.bits import finite_magnitude, floor_log2, power_of_two, working
from chop.formats.blocks import Blocks, BlockSize, check_block_size, shared_bits


@register_format("block_fp")
@dataclass(frozen=True)
class BlockFP(Format):
    """Block floating point (MSFP): integers of `width` bits, one exponent for each block."""

    width: int = param(8, search=(3, 4, 6, 8), help="bits of an element, sign included")
    exponent_width: int = param(8, help="bits of the exponent that a block shares")
    exponent_bias: int | None = param(None, help="subtracted from the stored exponent; None: half of its range")
    block_size: BlockSize = param(16, search=(16, 32), help="elements a block, or the shape of a tile")
    block_dim: int | None = param(None, place="reduce_dim", help="blocks run along it; None: the operand's")

    def __post_init__(self) -> None:
        check_range("width", self.width, 2, 24)
        check_range("exponent_width", self.exponent_width, 1, 8)
        if self.exponent_bias is None:
            object.__setattr__(self, "exponent_bias", self._bias)
        check_range("exponent_bias", self._bias, -127, 127 + 2**self.exponent_width - 1)
        check_block_size(self.block_size)

    @property
    def bits(self) -> float:
        return self.width + shared_bits(self.exponent_width, self.block_size)

    def quantize(self, x: Tensor) -> Tensor:
        if x.numel() == 0:
            return x.clone()
        blocks, mantissas, step = self._mantissas(x)
        return blocks.join(mantissas.mul_(step), like=x)

    def integers(self, x: Tensor) -> tuple[Tensor, Tensor]:
        if x.numel() == 0:
            return x.to(torch.int64), torch.ones_like(x)
        blocks, mantissas, step = self._mantissas(x)
        integers = blocks.join(mantissas, like=x).to(torch.int64)
        return integers, blocks.join(step.expand_as(mantissas), like=x)

    def _mantissas(self, x: Tensor) -> tuple[Blocks, Tensor, Tensor]:
        blocks = Blocks.of(working(x), self.block_size, self.block_dim)
        largest = blocks.maximum(finite_magnitude(blocks.values))
        low, high = -self._bias, 2**self.exponent_width - 1 - self._bias
        exponent = (floor_log2(largest) + 1).clamp_(low, high)
        step = power_of_two((exponent - (self.width - 1)).clamp_(min=_SMALLEST_STEP), largest.dtype)
        limit = 2.0 ** (self.width - 1) - 1
        return blocks, blocks.values.div(step).round_().clamp_(-limit, limit), step

    @property
    def _bias(self) -> int:
        return 2 ** (self.exponent_width - 1) - 1 if self.exponent_bias is None else self.exponent_bias


_SMALLEST_STEP = -149
"""float32 has nothing finer."""
