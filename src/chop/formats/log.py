"""Powers of two, with one exponent bias or with a bias per block."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from chop.formats.block_minifloat import SharedBias
from chop.formats.parts.base import check_range, param, register_format
from chop.formats.parts.grid import Grid, OnGrid
from chop.formats.parts.scales import PowerScale


@register_format("log")
@dataclass(frozen=True)
class Log(OnGrid):
    """0 and signed powers of two: a multiplication becomes a shift."""

    width: int = param(8, search=(3, 4, 6, 8), help="bits per element, sign included")
    exponent_bias: int | None = param(
        None, follows="width", help="subtracted from the stored exponent; None: 2**(width - 2)"
    )

    def __post_init__(self) -> None:
        check_range("width", self.width, 2, 8)
        if self.exponent_bias is None:
            object.__setattr__(self, "exponent_bias", self._bias)
        check_range("exponent_bias", self._bias, 2 ** (self.width - 1) - 128, 127)

    @property
    def _bias(self) -> int:
        return 2 ** (self.width - 2) if self.exponent_bias is None else self.exponent_bias

    @property
    def grid(self) -> Grid:
        return Grid(0, 1 - self._bias, 2.0 ** (2 ** (self.width - 1) - 1 - self._bias))


@register_format("block_log")
@dataclass(frozen=True)
class BlockLog(SharedBias):
    """`log` with an exponent bias per block, chosen so that the top code is the power nearest to its maximum."""

    width: int = param(8, search=(3, 4, 6, 8), help="bits per element, sign included")

    def __post_init__(self) -> None:
        check_range("width", self.width, 2, 8)
        self.check_shared()

    @property
    def block_scale(self) -> PowerScale:
        return PowerScale(*self.powers_at_top(self._top_code), above=1.5)

    def quotients(self, values: Tensor, scale: Tensor) -> Tensor:
        # The smallest quotients are subnormal in float32: just below half of the smallest power becomes half of it.
        exact = values if self.rounding == "nearest_even" else values.double()
        return exact.div(scale)

    @property
    def _top_code(self) -> int:
        return int(2 ** (self.width - 1)) - 1

    @property
    def grid(self) -> Grid:
        """The values of a block whose top code is 1."""
        return Grid(0, 1 - self._top_code, 1.0)
