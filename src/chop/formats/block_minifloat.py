"""Small floats with a shared exponent bias per block, and the base class of formats with such a bias."""

from __future__ import annotations

from dataclasses import dataclass

from chop.formats.parts.base import check_range, param, register_format
from chop.formats.parts.blocks import BlockSize
from chop.formats.parts.grid import Grid
from chop.formats.parts.scaled_blocks import ScaledBlocks
from chop.formats.parts.scales import PowerScale


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

    def powers_at_top(self, top_code: int) -> tuple[float, float]:
        """Return the smallest and the largest 2**(top_code - bias) that the width of the bias allows."""
        half = 2 ** (self.exponent_bias_width - 1)
        low, high = top_code - (half - 1), top_code + half
        return 2.0 ** max(low, -149), 2.0 ** min(high, 127)


@register_format("block_minifloat")
@dataclass(frozen=True)
class BlockMinifloat(SharedBias):
    """`minifloat_ieee` with an exponent bias per block, chosen so that the block's maximum is in the top binade."""

    floating_point = True

    width: int = param(8, search=(4, 6, 8), help="bits per element, sign included")
    exponent_width: int = param(4, search=(2, 3, 4), help="bits of the exponent")

    def __post_init__(self) -> None:
        check_range("width", self.width, 2, 23)
        check_range("exponent_width", self.exponent_width, 1, min(6, self.width - 1))
        self.check_shared()

    @property
    def block_scale(self) -> PowerScale:
        return PowerScale(*self.powers_at_top(2**self.exponent_width - 1))

    @property
    def grid(self) -> Grid:
        """The values of a block whose top binade begins at 1."""
        mantissa = self.width - 1 - self.exponent_width
        return Grid(mantissa, 2 - 2**self.exponent_width, 2 - 2.0**-mantissa)
