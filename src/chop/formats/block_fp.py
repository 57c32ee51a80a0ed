"""Block floating point."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from torch import Tensor

from chop.formats.base import check_range, param, register_format
from chop.formats.bits import exact_power_of_two_below
from chop.formats.blocks import BlockSize
from chop.formats.integer_grid import IntegerGrid
from chop.formats.kernels.families import Scale, power_scale
from chop.formats.scaled_blocks import ScaledBlocks


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

    def scale(self, largest: Tensor) -> Tensor:
        """Return the value of the last bit in blocks with these maxima."""
        return exact_power_of_two_below(largest).clamp_(*self.powers).mul_(2.0 ** (2 - self.width))

    @cached_property
    def loop_scale(self) -> Scale:
        return power_scale(*self.powers, unit=2.0 ** (2 - self.width))

    @property
    def powers(self) -> tuple[float, float]:
        """The smallest and the largest power of two below a maximum that the exponent allows."""
        low, high = -self._bias, 2**self.exponent_width - 1 - self._bias
        return 2.0 ** (low - 1), 2.0 ** min(high - 1, 127)

    @property
    def _bias(self) -> int:
        return 2 ** (self.exponent_width - 1) - 1 if self.exponent_bias is None else self.exponent_bias
