"""The microscaling formats of OCP: blocks of small floats or of integers with a power-of-two scale."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from torch import Tensor

from chop.formats.parts.base import Encoded, Scales, check_range, param, register_format
from chop.formats.parts.grid import ELEMENTS, ElementName, Grid, IntegerGrid, element_width
from chop.formats.parts.scaled_blocks import ScaledBlocks
from chop.formats.parts.scales import PowerScale

ScaleRule = Literal["floor", "ceil", "even", "rceil"]


@dataclass(frozen=True, kw_only=True)
class Microscaled(ScaledBlocks):
    """A format whose elements share an E8M0 scale in blocks of 32 (by default)."""

    scale_rule: ScaleRule = param(
        "floor",
        search=("floor", "even", "rceil"),
        help="how the scale of a block follows from its maximum",
        kw_only=True,
    )

    @property
    def scale_width(self) -> int:
        return 8

    def possible_scales(self, largest: Tensor) -> tuple[Tensor, ...]:
        # A block that was rounded down may be in a lower binade than its scale was computed from.
        scale = self.scale(largest)
        return scale, 2 * scale

    @property
    def is_idempotent(self) -> bool:
        # With `even`, a maximum of 1.97 gets the scale of 2. Rounded down to 1.875, it gets half of that scale.
        return self.scale_rule != "even"

    def ocp_scale(self, element_largest: float, mantissa: int, unit: float = 1.0) -> PowerScale:
        """Return the E8M0 scale (OCP MX v1.0), times `unit`, for elements of this range and precision."""
        significand, exponent = math.frexp(element_largest)
        # Maxima above this, relative to the power of two below them, have twice the scale of `floor`.
        above = {
            "floor": math.inf,
            "ceil": 1.0,
            "even": 2 - 2.0 ** -(mantissa + 1),  # half-way from the last value of the binade to the next one
            "rceil": 2 * significand,  # the largest element value, scaled to the same binade
        }
        return PowerScale(
            2.0**-127,
            2.0 ** (128 - exponent),  # E8M0 ends at 2**127, but above this, the largest elements are beyond float32
            factor=2.0 ** (1 - exponent),
            unit=unit,
            above=above[self.scale_rule],
            inclusive=self.scale_rule == "even",
        )


@register_format("mxfp")
@dataclass(frozen=True)
class MXFP(Microscaled):
    """OCP MXFP8, MXFP6 or MXFP4: small floats with a power-of-two scale per block."""

    floating_point = True

    element: ElementName = param("e4m3", search=("e4m3", "e3m2", "e2m3", "e2m1"), help="exponent and mantissa bits")

    def __post_init__(self) -> None:
        self.check_blocks()

    @property
    def width(self) -> int:
        return element_width(self.element)

    @property
    def grid(self) -> Grid:
        return ELEMENTS[self.element]

    @property
    def block_scale(self) -> PowerScale:
        return self.ocp_scale(self.grid.largest, self.grid.mantissa)


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

    @property
    def block_scale(self) -> PowerScale:
        """The steps of blocks: their E8M0 scales times 2**(2 - width)."""
        return self.ocp_scale(self.grid.limit * self._unit, self.width - 2, self._unit)

    def encode(self, x: Tensor) -> Encoded:
        codes, (step,) = super().encode(x)
        return codes, (step / self._unit,)

    def decode(self, codes: Tensor, scales: Scales = ()) -> Tensor:
        steps = tuple(scale * self._unit for scale in scales)
        return super().decode(codes, steps) if steps else super().decode(codes) * self._unit

    @property
    def _unit(self) -> float:
        return 2.0 ** (2 - self.width)
