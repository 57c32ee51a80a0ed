"""The base class of block formats with a shared exponent bias."""

from __future__ import annotations

from dataclasses import dataclass

from chop.formats.base import check_range, param
from chop.formats.blocks import BlockSize
from chop.formats.scaled_blocks import ScaledBlocks


@dataclass(frozen=True, kw_only=True)
class SharedBias(ScaledBlocks):
    """A format with blocks of grid values, the largest near 1, times a power of two given by the shared bias."""

    exponent_bias_width: int = param(8, help="bits of the bias that a block shares", kw_only=True)
    block_size: BlockSize = param(
        16, search=(16, 32), help="elements per block, or the shape of a tile", kw_only=True
    )

    def check_shared(self) -> None:
        """Raise an error if a shared parameter is outside its range."""
        check_range("exponent_bias_width", self.exponent_bias_width, 1, 8)
        self.check_blocks()

    @property
    def scale_width(self) -> int:
        return self.exponent_bias_width

    def at_top(self, top_code: int) -> tuple[float, float]:
        """Return the smallest and the largest 2**(top_code - bias) that the width of the bias allows."""
        half = 2 ** (self.exponent_bias_width - 1)
        low, high = top_code - (half - 1), top_code + half
        return 2.0 ** max(low, -149), 2.0 ** min(high, 127)
