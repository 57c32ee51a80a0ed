"""Fixed point whose width differs between channels or elements."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from chop.formats.kernels.families import round_columns, round_fixed_point
from chop.formats.parts.base import Format, check_range, param, register_format
from chop.formats.parts.bits import is_wide, largest_of, refuse_nan, working
from chop.formats.parts.rounding import Rounded, round_

MAX_WIDTH = 24
"""Longer integers do not fit float32, which holds the limits of each element."""


@register_format("mixed_integer")
@dataclass(frozen=True)
class MixedInteger(Rounded, Format):
    """Fixed point as in `integer`, with a width and fraction bits per channel or element; 0 bits: always 0."""

    widths: tuple[int, ...] = param(
        (8,), inherited=False, help="bits of each element of `shape`, sign included; 0: pruned"
    )
    frac_widths: tuple[int, ...] = param(
        (4,), inherited=False, help="fraction bits of each element of `shape`, may be negative"
    )
    shape: tuple[int, ...] = param(
        (),
        inherited=False,
        help="last dimensions that the widths belong to: [8, 4] for 8 x 4 weights, [8, 1] for 8 channels",
    )
    is_signed: bool = param(True, inherited=False, help="two's complement; False: from 0 upwards")

    def __post_init__(self) -> None:
        size = math.prod(self.shape)
        for name in ("widths", "frac_widths"):
            if len(getattr(self, name)) != size:
                raise ValueError(
                    f"shape {list(self.shape)} needs {size} numbers in '{name}', got {len(getattr(self, name))}"
                )
        for width, fraction in zip(self.widths, self.frac_widths, strict=True):
            check_range("each of 'widths'", width, 0, MAX_WIDTH)
            check_range("each of 'frac_widths'", fraction, -96, 100)
        exponent = torch.tensor(self.widths).reshape(self.shape) - int(self.is_signed)
        top = torch.where(exponent < 0, 1.0, torch.exp2(exponent.double()))  # 0 bits have the range from 0 to 0
        low = torch.where(exponent < 0, 0.0, -top) if self.is_signed else torch.zeros(self.shape)
        object.__setattr__(self, "_low", low.float())
        object.__setattr__(self, "_high", (top - 1).float())
        fractions = torch.tensor(self.frac_widths).reshape(self.shape)
        factor = torch.exp2(fractions.double()).float()
        object.__setattr__(self, "_factor", factor)
        object.__setattr__(self, "_by_device", {})
        object.__setattr__(self, "_table", torch.stack([factor, self._low, self._high, factor.reciprocal()]))
        if size == 1:
            object.__setattr__(self, "_only", tuple(each.item() for each in (factor, self._low, self._high)))

    @classmethod
    def of(cls, widths: Tensor, frac_widths: Tensor, **options: Any) -> MixedInteger:
        """Return the format with these widths and fraction bits, two tensors of one shape."""
        bits, fractions = (tuple(int(n) for n in each.flatten().tolist()) for each in (widths, frac_widths))
        return cls(widths=bits, frac_widths=fractions, shape=tuple(widths.shape), **options)

    @property
    def width(self) -> int:
        """The bits of the widest element."""
        return max(self.widths, default=0)

    @property
    def bits(self) -> float:
        return sum(self.widths) / max(1, len(self.widths))

    def storage_bits(self, shape: Sequence[int]) -> int:
        return int(self.widths_of(shape).sum())

    def widths_of(self, shape: Sequence[int]) -> Tensor:
        """Return the width of each element of a tensor."""
        self._check_shape(shape)
        return torch.tensor(self.widths, dtype=torch.int64).reshape(self.shape).expand(tuple(shape))

    @property
    def precision(self) -> list[int | float]:
        return [self.width, max(self.frac_widths, default=0)] if len(self.widths) == 1 else [self.width]

    @property
    def settings(self) -> dict[str, Any]:
        by_element = ("widths", "frac_widths", "shape")
        return {name: value for name, value in super().settings.items() if name not in by_element}

    @property
    def _numbers_text(self) -> str:
        if len(self.widths) == 1:
            return super()._numbers_text
        return f"{min(self.widths, default=0)} to {self.width} bits, mean {self.bits:.3g}"

    def rounds_rows_independently(self, x: Tensor) -> bool:
        return x.dim() > len(self.shape)

    def quantize(self, x: Tensor) -> Tensor:
        fast = self._quantize_by_loop(x)
        if fast is not None:
            return fast
        integers = self._rounded(x)
        return integers.div_(self._limits_on(x.device)[2]).to(x.dtype)

    def _quantize_by_loop(self, x: Tensor) -> Tensor | None:
        self._check_shape(x.shape)
        if self._only is not None:
            return round_fixed_point(x, self.rounding, *self._only)
        return round_columns(x, self.rounding, self._table)

    def integers(self, x: Tensor) -> tuple[Tensor, Tensor]:
        refuse_nan(x)
        return self._rounded(x).long(), self._factor.reciprocal().to(working(x).dtype)

    def limits(self) -> tuple[Tensor, Tensor, Tensor]:
        """Return fraction bits, smallest and largest integer of each element of `shape`."""
        fractions = torch.tensor(self.frac_widths, dtype=torch.int64).reshape(self.shape)
        return fractions, self._low.long(), self._high.long()

    def _rounded(self, x: Tensor) -> Tensor:
        """Return the integers, in float32 or float64."""
        self._check_shape(x.shape)
        values = working(x)
        low, high, factor = self._limits_on(x.device)
        if not is_wide(x.dtype):  # no result may be larger than the largest number of a narrow dtype
            top = (largest_of(x.dtype) * factor.double()).floor().to(factor.dtype)
            low, high = low.maximum(-top), high.minimum(top)
        scaled = round_(values * factor, self.rounding)
        # Not `clamp`: with tensors as limits, the sign of its zeros depends on their position in the tensor.
        scaled = torch.where(scaled < low, low, scaled)
        return torch.where(scaled > high, high, scaled)

    def _limits_on(self, device: torch.device) -> tuple[Tensor, Tensor, Tensor]:
        """Return the smallest and largest integers and the factor on a device, to which they are copied once."""
        if device not in self._by_device:
            self._by_device[device] = self._low.to(device), self._high.to(device), self._factor.to(device)
        return self._by_device[device]

    def _check_shape(self, shape: Sequence[int]) -> None:
        own = self.shape
        fits = len(own) <= len(shape) and all(
            mine in (1, other) for mine, other in zip(reversed(own), reversed(shape), strict=False)
        )
        if not fits:
            raise ValueError(f"format '{self.name}' with shape {list(own)} does not fit a tensor of {list(shape)}")

    # Computed once, because every call needs them.
    _low = torch.zeros(())
    _high = torch.zeros(())
    _factor = torch.ones(())
    _by_device: ClassVar[dict[torch.device, tuple[Tensor, Tensor, Tensor]]] = {}
    _table = torch.ones(4)
    _only: ClassVar[tuple[float, float, float] | None] = None
