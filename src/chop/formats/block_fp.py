"""Block floating point."""

from __future__ import annotations

from dataclasses import dataclass

from chop.formats.parts.base import check_range, param, register_format
from chop.formats.parts.blocks import BlockSize
from chop.formats.parts.grid import IntegerGrid
from chop.formats.parts.scaled_blocks import ScaledBlocks
from chop.formats.parts.scales import PowerScale


@register_format("block_fp")
@dataclass(frozen=True)
class BlockFP(ScaledBlocks):
    """Block floating point (MSFP): integers of `width` bits, with one exponent per block."""

    width: int = param(8, search=(3, 4, 6, 8), help="bits per element, sign included")
    exponent_width: int = param(8, help="bits of the exponent that a block shares")
    exponent_bias: int | None = param(
        None, follows="exponent_width", help="subtracted from the stored exponent; None: half of its range"
    )
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
    def scale_width(self) -> int:
        return self.exponent_width

    @property
    def grid(self) -> IntegerGrid:
        return IntegerGrid(2 ** (self.width - 1) - 1)

    @property
    def block_scale(self) -> PowerScale:
        """The value of the last bit: its exponent is stored with a bias, within its width."""
        low, high = -self._bias, 2**self.exponent_width - 1 - self._bias
        return PowerScale(2.0 ** (low - 1), 2.0 ** min(high - 1, 127), unit=2.0 ** (2 - self.width))

    @property
    def _bias(self) -> int:
        return 2 ** (self.exponent_width - 1) - 1 if self.exponent_bias is None else self.exponent_bias
