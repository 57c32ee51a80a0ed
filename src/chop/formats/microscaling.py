"""The common part of the OCP microscaling formats: blocks with a power-of-two scale."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from torch import Tensor

from chop.formats.base import param
from chop.formats.bits import exact_power_of_two_below, power_of_two_below
from chop.formats.kernels.families import Scale, power_scale
from chop.formats.scaled_blocks import ScaledBlocks

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


def block_scale(largest: Tensor, rule: ScaleRule, element_largest: float, mantissa: int) -> Tensor:
    """Return the scale of blocks with these maxima, for elements of this range and precision (OCP MX v1.0)."""
    emax = math.frexp(element_largest)[1] - 1
    # With `floor` all subnormal maxima get the smallest scale, so they need not be distinguished.
    power = power_of_two_below(largest) if rule == "floor" else exact_power_of_two_below(largest)
    scale = power * 2.0**-emax
    if rule != "floor":
        scale = scale * (1 + _exceeds(largest, power, rule, element_largest, mantissa).to(scale.dtype))
    # E8M0 ends at 2**127. Scales above 2**(127 - emax) are not used: their largest elements are beyond float32.
    return scale.clamp_(2.0**-127, 2.0 ** (127 - emax))


def _exceeds(largest: Tensor, power: Tensor, rule: ScaleRule, element_largest: float, mantissa: int) -> Tensor:
    """Return where the scale is twice that of `floor`; `power` is the largest power of two below `largest`."""
    bound = power * scale_bound(rule, element_largest, mantissa)
    return largest >= bound if rule == "even" else largest > bound


def scale_bound(rule: ScaleRule, element_largest: float, mantissa: int) -> float:
    """Return the bound above which (with `even`, from which) a maximum in [1, 2) has twice the scale of `floor`."""
    match rule:
        case "floor":
            return math.inf
        case "ceil":
            return 1.0
        case "even":  # half-way between the last value of the binade and the next power of two
            return 2 - 2.0 ** -(mantissa + 1)
        case "rceil":  # the largest element value, scaled to the same binade
            return math.ldexp(element_largest, 1 - math.frexp(element_largest)[1])


def loop_block_scale(rule: ScaleRule, element_largest: float, mantissa: int, unit: float = 1.0) -> Scale:
    """Return how a compiled loop computes `block_scale`, times `unit`."""
    emax = math.frexp(element_largest)[1] - 1
    return power_scale(
        2.0**-127,
        2.0 ** (127 - emax),
        factor=2.0**-emax,
        unit=unit,
        above=scale_bound(rule, element_largest, mantissa),
        inclusive=rule == "even",
    )
