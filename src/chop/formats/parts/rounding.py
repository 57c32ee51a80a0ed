"""Rounding a number to one of its two neighbours on a grid."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from chop.formats.parts.base import param

Rounding = Literal["nearest_even", "nearest_away", "floor", "towards_zero", "stochastic"]
_DIRECTED = ("floor", "towards_zero", "stochastic")


@dataclass(frozen=True, kw_only=True)
class Rounded:
    """The parameter `rounding`, for formats that offer a choice."""

    @property
    def is_repeatable(self) -> bool:
        return self.rounding != "stochastic"

    rounding: Rounding = param(
        "nearest_even", kw_only=True, help="which of the two neighbours; stochastic uses torch's random generator"
    )


def round_(x: Tensor, rounding: Rounding) -> Tensor:
    """Round to integers, in place if possible; use the return value."""
    match rounding:
        case "nearest_even":
            return x.round_()
        case "floor":
            return x.floor_()
        case "towards_zero":
            return x.trunc_()
        case "nearest_away":
            up = (x.frac().abs_() >= 0.5).to(x.dtype).copysign_(x)  # exact; adding 0.5 would itself be rounded
            return x.trunc_().add_(up)
        case "stochastic":
            lower = x.floor()
            return torch.where(x.isfinite(), lower + (torch.rand_like(x) < x - lower), x)


def round_quotients(
    x: Tensor, rounding: Rounding, round_in_place: Callable[[Tensor, Rounding], Tensor] = round_
) -> Tensor:
    """Round numbers divided by a scale, in place if possible; those within a few ulp of a value become that value.

    The division is exact only by a power of two. Without this, `floor` could make 126 of 12.7 / 0.1.
    """
    if rounding not in _DIRECTED:
        return round_in_place(x, rounding)
    nearest = round_in_place(x.clone(), "nearest_even")
    is_value = (x - nearest).abs() <= 4 * torch.finfo(x.dtype).eps * x.abs()
    return torch.where(is_value, nearest, round_in_place(x, rounding))


def without_overflow(values: Tensor, dtype: torch.dtype, scale: Tensor, truncated: Callable[[], Tensor]) -> Tensor:
    """Return `values`, or those of `truncated`, rounded towards zero, where `values * scale` overflows `dtype`."""
    overflows = (values * scale).to(dtype).isinf()
    if torch.compiler.is_compiling() or bool(overflows.any()):
        return torch.where(overflows, truncated(), values)
    return values


def rounds_up(share: Tensor, negative: Tensor, rounding: Rounding) -> Tensor:
    """Whether a magnitude is rounded to its upper neighbour; `share` is its distance from the lower one, 0 to 1."""
    match rounding:
        case "nearest_even":
            raise AssertionError("even values are defined by codes, which this function does not know")
        case "nearest_away":
            return share >= 0.5
        case "floor":
            return (share > 0) & negative
        case "towards_zero":
            return torch.zeros_like(negative)
        case "stochastic":
            return torch.rand_like(share) < share
