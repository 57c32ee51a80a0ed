"""What the OCP microscaling formats share: blocks with a power of two as scale."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from torch import Tensor

from chop.formats.base import param
from chop.formats.bits import exact_power_of_two_below, power_of_two_below
from chop.formats.blocks import InBlocks
from chop.formats.rounding import Rounded

ScaleRule = Literal["floor", "ceil", "even", "rceil"]
SCALE_WIDTH = 8


@dataclass(frozen=True, kw_only=True)
class Microscaled(InBlocks, Rounded):
    """Elements in blocks of 32 (by default) that share an E8M0 scale."""

    scale_rule: ScaleRule = param(
        "floor", search=("floor", "even", "rceil"), help="the block's scale from its maximum", kw_only=True
    )


def block_scale(largest: Tensor, rule: ScaleRule, element_largest: float, mantissa: int) -> Tensor:
    """The power of two for blocks with these maxima and elements of this range and precision (OCP MX v1.0)."""
    emax = math.frexp(element_largest)[1] - 1
    # Under `floor` all subnormal maxima have the smallest scale, so that they need not be told apart.
    power = power_of_two_below(largest) if rule == "floor" else exact_power_of_two_below(largest)
    scale = power * 2.0**-emax
    if rule != "floor":
        scale = scale * (1 + _exceeds(largest, power, rule, element_largest, mantissa).to(scale.dtype))
    return scale.clamp_(2.0**-127, 2.0**127)


def _exceeds(largest: Tensor, power: Tensor, rule: ScaleRule, element_largest: float, mantissa: int) -> Tensor:
    """Where the scale is twice that of `floor`; `power` is the power of two below `largest`."""
    match rule:
        case "ceil":
            return largest > power
        case "even":  # from the middle between the last value of the binade and the next one, it rounds up
            return largest >= power * (2 - 2.0 ** -(mantissa + 1))
        case _:  # rceil: the elements' largest value, brought to the same binade, is not enough
            return largest > power * math.ldexp(element_largest, 1 - math.frexp(element_largest)[1])
