"""Block floating point."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from chop.formats.base import Encoded, Format, Scales, check_range, param, register_format
from chop.formats.bits import exact_power_of_two_below, working
from chop.formats.blocks import BlockSize, InBlocks, shared_bits
from chop.formats.rounding import Rounded, round_


@register_format("block_fp")
@dataclass(frozen=True)
class BlockFP(InBlocks, Rounded, Format):
    """Block floating point (MSFP): integers of `width` bits, with one exponent per block."""

    is_symmetric = True

    width: int = param(8, search=(3, 4, 6, 8), help="bits per element, sign included")
    exponent_width: int = param(8, help="bits of the exponent that a block shares")
    exponent_bias: int | None = param(None, help="subtracted from the stored exponent; None: half of its range")
    block_size: BlockSize = param(
        16, search=(16, 32), help="elements per block, or the shape of a tile", kw_only=True
    )

    def __post_init__(self) -> None:
        check_range("width", self.width, 2, 23)
        check_range("exponent_width", self.exponent_width, 1, 8)
        if self.exponent_bias is None:
            object.__setattr__(self, "exponent_bias", self._bias)
        check_range("exponent_bias", self._bias, -127, 127)
        self.check_blocks()

    @property
    def bits(self) -> float:
        return self.width + shared_bits(self.exponent_width, self.block_size)

    def quantize(self, x: Tensor) -> Tensor:
        def rounded(values: Tensor, largest: Tensor) -> Tensor:
            step = self._step(largest)
            return self._mantissas(values, step).mul_(step)

        return self.by_blocks(x, rounded)

    def integers(self, x: Tensor) -> tuple[Tensor, Tensor]:
        step = self.by_blocks(x, lambda values, largest: self._step(largest).expand_as(values))
        return self.by_blocks(x, lambda v, largest: self._mantissas(v, self._step(largest))).long(), step

    def encode(self, x: Tensor) -> Encoded:
        return self.encode_by_blocks(x, self._step, self._mantissas)

    def decode(self, codes: Tensor, scales: Scales = ()) -> Tensor:
        return self.decode_by_blocks(codes, scales, lambda c: c.float())

    def all_codes(self) -> Tensor:
        limit = 2 ** (self.width - 1) - 1
        return torch.arange(-limit, limit + 1)

    def _step(self, largest: Tensor) -> Tensor:
        """Return the value of the last bit in blocks with these maxima."""
        low, high = -self._bias, 2**self.exponent_width - 1 - self._bias
        power = exact_power_of_two_below(largest).clamp_(2.0 ** (low - 1), 2.0 ** min(high - 1, 127))
        return power.mul_(2.0 ** (2 - self.width))

    def _mantissas(self, values: Tensor, step: Tensor) -> Tensor:
        limit = 2.0 ** (self.width - 1) - 1
        return round_(working(values).div(step), self.rounding).clamp_(-limit, limit)

    @property
    def _bias(self) -> int:
        return 2 ** (self.exponent_width - 1) - 1 if self.exponent_bias is None else self.exponent_bias
