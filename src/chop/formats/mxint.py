"""Microscaling integers."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from torch import Tensor

from chop.formats.base import Encoded, Scales, check_range, param, register_format
from chop.formats.integer_grid import IntegerGrid
from chop.formats.kernels.families import Scale
from chop.formats.microscaling import Microscaled, block_scale, loop_block_scale


@register_format("mxint")
@dataclass(frozen=True)
class MXInt(Microscaled):
    """OCP MXINT: integers divided by 2**(width - 2), with a power-of-two scale per block."""

    width: int = param(8, search=(3, 4, 6, 8), help="bits per element, sign included")

    def __post_init__(self) -> None:
        check_range("width", self.width, 2, 22)
        self.check_blocks()

    @property
    def grid(self) -> IntegerGrid:
        return IntegerGrid(2 ** (self.width - 1) - 1)

    def scale(self, largest: Tensor) -> Tensor:
        """Return the steps of blocks with these maxima: their E8M0 scales times 2**(2 - width)."""
        return block_scale(largest, self.scale_rule, self.grid.limit * self._unit, self.width - 2).mul_(self._unit)

    @cached_property
    def loop_scale(self) -> Scale:
        return loop_block_scale(self.scale_rule, self.grid.limit * self._unit, self.width - 2, self._unit)

    def encode(self, x: Tensor) -> Encoded:
        codes, (step,) = super().encode(x)
        return codes, (step / self._unit,)

    def decode(self, codes: Tensor, scales: Scales = ()) -> Tensor:
        steps = tuple(scale * self._unit for scale in scales)
        return super().decode(codes, steps) if steps else super().decode(codes) * self._unit

    @property
    def _unit(self) -> float:
        return 2.0 ** (2 - self.width)
