"""Microscaling floats."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from chop.formats.base import Encoded, Format, Scales, param, register_format
from chop.formats.blocks import shared_bits
from chop.formats.elements import ELEMENTS, ElementName, element_width
from chop.formats.microscaling import SCALE_WIDTH, Microscaled, block_scale
from chop.formats.minifloat import Grid


@register_format("mxfp")
@dataclass(frozen=True)
class MXFP(Microscaled, Format):
    """OCP MXFP8, MXFP6 or MXFP4: small floats with a power-of-two scale per block."""

    floating_point = True

    element: ElementName = param("e4m3", search=("e4m3", "e3m2", "e2m3", "e2m1"), help="exponent and mantissa bits")

    def __post_init__(self) -> None:
        self.check_blocks()

    @property
    def width(self) -> int:
        return element_width(self.element)

    @property
    def bits(self) -> float:
        return self.width + shared_bits(SCALE_WIDTH, self.block_size)

    def quantize(self, x: Tensor) -> Tensor:
        def rounded(values: Tensor, largest: Tensor) -> Tensor:
            scale = self._scale(largest)
            return self._elements(values, scale).mul_(scale)

        return self.by_blocks(x, rounded)

    def integers(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return the significands, and for each the power of two that is its unit."""

        def parts(values: Tensor, largest: Tensor) -> tuple[Tensor, Tensor]:
            scale = self._scale(largest)
            significands, step = self._grid.integers(self._elements(values, scale))
            return significands.to(values.dtype), step * scale

        return self.by_blocks(x, lambda v, m: parts(v, m)[0]).long(), self.by_blocks(x, lambda v, m: parts(v, m)[1])

    def encode(self, x: Tensor) -> Encoded:
        return self.encode_by_blocks(x, self._scale, lambda v, scale: self._grid.encode(self._elements(v, scale)))

    def decode(self, codes: Tensor, scales: Scales = ()) -> Tensor:
        return self.decode_by_blocks(codes, scales, self._grid.decode)

    def all_codes(self) -> Tensor:
        return self._grid.all_codes()

    def _scale(self, largest: Tensor) -> Tensor:
        return block_scale(largest, self.scale_rule, self._grid.largest, self._grid.mantissa)

    def _elements(self, values: Tensor, scale: Tensor) -> Tensor:
        return self._grid.round_(values.div(scale), self.rounding)

    @property
    def _grid(self) -> Grid:
        return ELEMENTS[self.element]
