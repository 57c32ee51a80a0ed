"""Powers of two."""

from __future__ import annotations

from dataclasses import dataclass

from chop.formats.base import check_range, param, register_format
from chop.formats.minifloat import Grid, OnGrid


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
