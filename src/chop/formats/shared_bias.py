"""The base class of block formats with a shared exponent bias."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass

from torch import Tensor

from chop.formats.base import Encoded, Format, Scales, check_range, param
from chop.formats.blocks import BlockSize, InBlocks, shared_bits
from chop.formats.minifloat import Grid
from chop.formats.rounding import Rounded


@dataclass(frozen=True, kw_only=True)
class SharedBias(InBlocks, Rounded, Format):
    """A format with blocks of grid values, the largest near 1, times a power of two given by the shared bias."""

    is_symmetric = True

    exponent_bias_width: int = param(8, help="bits of the bias that a block shares", kw_only=True)
    block_size: BlockSize = param(
        16, search=(16, 32), help="elements per block, or the shape of a tile", kw_only=True
    )

    @property
    @abstractmethod
    def grid(self) -> Grid:
        """The numbers of a block whose scale is 1."""

    @abstractmethod
    def scale(self, largest: Tensor) -> Tensor:
        """Return the power of two of blocks with these maxima."""

    def check_shared(self) -> None:
        """Raise an error if a shared parameter is outside its range."""
        check_range("exponent_bias_width", self.exponent_bias_width, 1, 8)
        self.check_blocks()

    @property
    def bits(self) -> float:
        return self.width + shared_bits(self.exponent_bias_width, self.block_size)

    def quantize(self, x: Tensor) -> Tensor:
        def rounded(values: Tensor, largest: Tensor) -> Tensor:
            scale = self.scale(largest)
            return self._elements(values, scale).mul_(scale)

        return self.by_blocks(x, rounded)

    def integers(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return the significands, and for each the power of two that is its unit."""

        def parts(values: Tensor, largest: Tensor) -> tuple[Tensor, Tensor]:
            scale = self.scale(largest)
            significands, step = self.grid.integers(self._elements(values, scale))
            return significands.to(values.dtype), step * scale

        return self.by_blocks(x, lambda v, m: parts(v, m)[0]).long(), self.by_blocks(x, lambda v, m: parts(v, m)[1])

    def encode(self, x: Tensor) -> Encoded:
        return self.encode_by_blocks(x, self.scale, lambda v, scale: self.grid.encode(self._elements(v, scale)))

    def decode(self, codes: Tensor, scales: Scales = ()) -> Tensor:
        return self.decode_by_blocks(codes, scales, self.grid.decode)

    def all_codes(self) -> Tensor:
        return self.grid.all_codes()

    def _elements(self, values: Tensor, scale: Tensor) -> Tensor:
        return self.grid.round_(values.div(scale), self.rounding)

    def at_top(self, power: Tensor, top_code: int) -> Tensor:
        """Return 2**(top_code - bias) with the bias that makes it `power`, as far as its width allows."""
        half = 2 ** (self.exponent_bias_width - 1)
        low, high = top_code - (half - 1), top_code + half
        return power.clamp(2.0 ** max(low, -149), 2.0 ** min(high, 127))
